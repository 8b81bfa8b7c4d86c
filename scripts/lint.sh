#!/usr/bin/env bash
# ruff and clang-format on everything, clang-tidy on the C++ files that differ from the main branch (or, on it, from the
# last commit but one) or are not committed.
#   lint.sh         says what is wrong
#   lint.sh --fix   formats, and repairs what ruff can
#   lint.sh --all   clang-tidy on every file
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
bin=.venv/bin

# Files that git knows or would know: nothing that is ignored.
files() { git ls-files --cached --others --exclude-standard --deduplicate -- "$@" | while read -r f; do [ ! -e "$f" ] || echo "$f"; done; }
mapfile -t cpp < <(files '*.cpp' '*.h' '*.hpp' '*.inc')

if [ "$mode" = --fix ]; then
  "$bin/ruff" check -q --fix . || true
  "$bin/ruff" format -q .
  [ ${#cpp[@]} -eq 0 ] || "$bin/clang-format" -i "${cpp[@]}"
  exit 0
fi

failed=0
"$bin/ruff" check -q . || failed=1
"$bin/ruff" format -q --diff . || failed=1
for file in "${cpp[@]}"; do
  "$bin/clang-format" --dry-run -Werror "$file" 2>/dev/null || { echo "$file: not formatted (make format)"; failed=1; }
done

changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse -q --verify HEAD~1 || git hash-object -t tree /dev/null)
  fi
  { git diff --name-only --diff-filter=d "$base" -- '*.cpp'; git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u
}
if [ "$mode" = --all ]; then mapfile -t tidy < <(files 'src/*.cpp'); else mapfile -t tidy < <(changed | grep -E '^src/' || true); fi
if [ ${#tidy[@]} -gt 0 ]; then
  [ -e build/release/compile_commands.json ] || cmake --preset release >/dev/null
  echo "clang-tidy: ${#tidy[@]} files"
  check() {
    xargs -r -P "$(nproc)" -n 1 "$bin/clang-tidy" -p build/release --quiet "$@" 2> >(grep -vE 'warnings? generated|^Suppressed|^Use -' >&2)
  }
  printf '%s\n' "${tidy[@]}" | sed -E '\#^src/python/|/kernels/isa/#d' | check || failed=1
  # Kernels are compiled for each instruction set, through generated files that include them. Offsets inside a tile are small.
  printf '%s\n' "${tidy[@]}" | sed -nE 's|^(src/.*/kernels)/isa/(.*)\.cpp$|build/release/\1/portable/\2_portable.cpp|p' |
    check --checks=-bugprone-suspicious-include,-bugprone-implicit-widening-of-multiplication-result || failed=1
fi
[ $failed -ne 0 ] || echo "lint: nothing to say"
exit $failed
