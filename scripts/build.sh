#!/usr/bin/env bash
# The C++ build with the Python extension, and the links that make .venv use it in place:
# a change in python/pycandle is seen at once, a change in src/ after the next `make build`.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
build=build/release

mkdir -p build
cmake --preset release -DPYCANDLE_PYTHON=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build/configure.log 2>&1 ||
  { cat build/configure.log; exit 1; }
cmake --build --preset release

# The program is copied, not linked: it looks for Python beside itself.
cmp -s "$build/bin/pycandle" .venv/bin/pycandle ||
  { cp "$build/bin/pycandle" .venv/bin/.pycandle.new && mv .venv/bin/.pycandle.new .venv/bin/pycandle; }

site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/python" >"$site/pycandle.pth"
for extension in "$build"/python/pycandle/_core*.so; do
  ln -sfn "$PWD/$extension" "python/pycandle/$(basename "$extension")"
done
for stub in "$build"/python/pycandle/*.pyi; do # generated, and committed for the reader
  cmp -s "$stub" "python/pycandle/$(basename "$stub")" || cp "$stub" python/pycandle/
done
