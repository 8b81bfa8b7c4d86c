#!/usr/bin/env bash
# The C++ build with the Python extension, and the links that make .venv use it in place:
# a change in python/pycandle is seen at once, a change in src/ after the next `make build`.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release

mkdir -p build
cmake --preset release -DPYCANDLE_PYTHON=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build/configure.log 2>&1 ||
  { cat build/configure.log; exit 1; }
cmake --build --preset release

# make a link only when it is not there: a build that changes nothing touches nothing
link() { [ "$(readlink "$2" 2>/dev/null)" = "$1" ] || ln -sfn "$1" "$2"; }

link "$PWD/$build/bin/pycandle" .venv/bin/pycandle
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" >"$site/pycandle.pth"
for extension in "$build"/python/pycandle/_core*.so; do
  [ -e "$extension" ] && link "$PWD/$extension" "python/pycandle/$(basename "$extension")"
done
for stub in "$build"/python/pycandle/*.pyi; do # generated, and committed for the reader
  [ ! -e "$stub" ] || cmp -s "$stub" "python/pycandle/$(basename "$stub")" || cp "$stub" python/pycandle/
done
