#!/usr/bin/env bash
# Runs every tests/fuzz/fuzz_*.cpp for some seconds, from the committed corpus (tests/fuzz/corpus/<name>) and what
# earlier runs found. usage: fuzz.sh [seconds]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
sources=(tests/fuzz/fuzz_*.cpp)
mapfile -t targets < <(basename -s .cpp "${sources[@]}")
cmake --preset fuzz
cmake --build --preset fuzz --target "${targets[@]}"
failed=0
for name in "${targets[@]}"; do
  found=build/fuzz/corpus/$name
  mkdir -p "$found"
  corpus=("$found")
  [ ! -d "tests/fuzz/corpus/${name#fuzz_}" ] || corpus+=("tests/fuzz/corpus/${name#fuzz_}")
  echo "== $name, $seconds s"
  "build/fuzz/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$name-" "${corpus[@]}" >"build/fuzz/$name.log" 2>&1 || { failed=1; tail -n 40 "build/fuzz/$name.log"; }
  grep -E '^(Done|stat::number_of_executed_units)' "build/fuzz/$name.log" || true
done
exit $failed
