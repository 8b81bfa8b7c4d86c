#!/usr/bin/env bash
# Checks a recorded model in continuous integration, and leaves what a reviewer reads:
#
#   ci.sh RECORDING BASELINE OUT
#
# RECORDING   a manifest, or the folder of one
# BASELINE    the result of the main branch; without the file, verdicts alone count
# OUT         gets result.jsonl, report.html, summary.md and badge.svg
#
# Exit status: 0 fine, 1 a layer is wrong or became worse than in the baseline, 2 bad input.
set -uo pipefail
recording=$1 baseline=$2 out=$3
mkdir -p "$out" || exit 2
result=$out/result.jsonl compared=()
if [ -f "$baseline" ]; then compared=(--baseline "$baseline"); fi

pycandle verify "$recording" --out "$result" "${compared[@]}"
status=$?
[ "$status" -le 1 ] || exit "$status" # there is no result to show

pages=(--result "$result" "${compared[@]}")
pycandle report "$recording" "${pages[@]}" -o "$out/report.html" || exit
pycandle report "$recording" "${pages[@]}" --format md -o "$out/summary.md" --badge "$out/badge.svg" || exit
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then cat "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"; fi
exit "$status"
