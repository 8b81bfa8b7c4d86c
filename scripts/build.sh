#!/usr/bin/env bash
# The C++ build with the Python extension, and the links that make .venv use it in place:
# a change in python/pycandle is seen at once, a change in src/ after the next `make build`.
#
#   build.sh          what a user runs and links
#   build.sh tests    the tests too
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
build=build/release
case ${1:-} in
  '') compile=(cmake --build --preset release --target product) ;;
  tests) compile=(cmake --build --preset release) ;;
  *) echo "build.sh: $1? (tests)" >&2; exit 2 ;;
esac

mkdir -p build
exec 9>build/.lock && flock 9 # one build at a time

cmake --preset release -DPYCANDLE_PYTHON=ON -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build/configure.log 2>&1 ||
  { cat build/configure.log; exit 1; }
"${compile[@]}"

# What is generated from the catalogue, and committed for the reader. A new header means building once more.
generated_anew() { # <option of `pycandle ops`> <file>: whether the file changed
  "$build/bin/pycandle" ops "$1" >build/generated || exit 1
  if cmp -s build/generated "$2"; then return 1; fi
  cp build/generated "$2"
  echo "generated $2"
}
if generated_anew --front-header include/pycandle/functional.h; then front=new; fi
if generated_anew --front-source src/capture/functional.cpp || [ "${front:-}" ]; then "${compile[@]}"; fi
if generated_anew --markdown docs/ops.md; then :; fi

# The program is copied, not linked: it looks for Python beside itself.
cmp -s "$build/bin/pycandle" .venv/bin/pycandle ||
  { cp "$build/bin/pycandle" .venv/bin/.pycandle.new && mv .venv/bin/.pycandle.new .venv/bin/pycandle; }

mkdir -p .venv/lib/cmake && ln -sfn "$PWD/$build/lib/cmake/pycandle" .venv/lib/cmake/pycandle # pycandle --cmake-dir
mkdir -p .venv/lib/rust && ln -sfn "$PWD/rust/pycandle" .venv/lib/rust/pycandle # pycandle --crate-dir
ln -sfn "$PWD/tests/backend/pack" .venv/lib/backend_tests # pycandle test-backend

site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
version=$(.venv/bin/pycandle --version | cut -d ' ' -f 2)
info=pycandle-$version.dist-info # what pip writes, so that Python's tools see the package
if [ ! -d "$site/$info" ]; then
  rm -rf "$site"/pycandle-*.dist-info
  mkdir "$site/$info"
  printf 'Metadata-Version: 2.1\nName: pycandle\nVersion: %s\n' "$version" >"$site/$info/METADATA"
  echo make >"$site/$info/INSTALLER"
  printf '%s,,\n' pycandle.pth "$info/METADATA" "$info/INSTALLER" "$info/RECORD" ../../../bin/pycandle >"$site/$info/RECORD"
fi
echo "$PWD/python" >"$site/pycandle.pth"
for extension in "$build"/python/pycandle/_core*.so; do
  ln -sfn "$PWD/$extension" "python/pycandle/$(basename "$extension")"
done
for stub in "$build"/python/pycandle/*.pyi; do # generated, and committed for the reader
  cmp -s "$stub" "python/pycandle/$(basename "$stub")" || cp "$stub" python/pycandle/
done
