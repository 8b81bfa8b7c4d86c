# Every goal sets up what it needs and is quick when that is there. The list: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PYTEST_JOBS ?= 2
PYTEST_FLAGS ?= -q --durations=10
ZOO_FLAGS ?=
PEOPLE_FLAGS ?=
OP_DB_BACKEND ?= reference
FAULTS_FLAGS ?=
BENCH_FLAGS ?=
# ctest without a line for each test that passed
CTEST := ctest -j $(JOBS) --output-on-failure
ONLY_NEWS := sed -E '/^ *(Start +[0-9]+:|[0-9]+\/[0-9]+ Test +\#.* Passed +)/d'
# Tests run side by side: one thread each.
test test-full zoo zoo-emit zoo-rust zoo-decode zoo-bench zoo-onnx people op-db faults twins: export OMP_NUM_THREADS ?= 1

.PHONY: help build build-tests demo shakespeare test test-cpp test-full zoo zoo-emit zoo-rust zoo-decode zoo-bench zoo-onnx people op-db models faults twins bench bench-quick test-asan test-tsan format lint fuzz requirements web wheel clean

help: ## list these goals
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the program (.venv/bin/pycandle) and the Python package (.venv/bin/python -c "import pycandle")
	@scripts/setup.sh build venv
	@scripts/build.sh

build-tests: ## the same, and the C++ tests
	@scripts/setup.sh build venv
	@scripts/build.sh tests

demo: build ## record a real model, run it without PyTorch, verify every layer; then a real language model writes a sentence
	@scripts/setup.sh smollm2
	@.venv/bin/python examples/demo.py

shakespeare: build ## train a small GPT for a minute on Shakespeare's plays, and let its emitted C++ write on
	@scripts/setup.sh shakespeare
	@.venv/bin/python examples/shakespeare/run.py

test: build-tests ## every test a change can break: C++ and Python
	@scripts/setup.sh rust
	@$(CTEST) --preset release | $(ONLY_NEWS)
	@.venv/bin/python -m pytest $(PYTEST_FLAGS) -n $(PYTEST_JOBS) --dist loadfile tests

test-cpp: ## the C++ tests alone; needs no PyTorch
	@scripts/setup.sh build
	@cmake --preset release
	@cmake --build --preset release
	@$(CTEST) --preset release | $(ONLY_NEWS)

test-full: build-tests ## all tests, the slow ones too; writes the dated table docs/test-full.md
	@scripts/setup.sh clang rust web browser cross shells
	@.venv/bin/python scripts/test_full.py --jobs $(PYTEST_JOBS) $(TEST_FULL_FLAGS)

zoo: build ## published models, each recorded, run and verified; writes docs/zoo.md (ZOO_FLAGS="--filter llama")
	@PYTHONPATH=tests .venv/bin/python -m zoo --jobs $(JOBS) $(ZOO_FLAGS)

zoo-rust: build ## models of the zoo as Rust crates on Candle, compiled and tested (ZOO_FLAGS as above)
	@scripts/setup.sh rust
	@PYTHONPATH=tests .venv/bin/python -m zoo.zoo_rust --jobs $(JOBS) $(ZOO_FLAGS)

zoo-emit: build ## models of the zoo as C++ source, compiled and tested; writes docs/zoo-emit.md (ZOO_FLAGS as above)
	@scripts/setup.sh build clang
	@PYTHONPATH=tests .venv/bin/python -m zoo.zoo_emit --jobs $(JOBS) $(ZOO_FLAGS)

zoo-onnx: build ## models of the zoo as ONNX files, run in ONNX Runtime; writes docs/zoo-onnx.md (ZOO_FLAGS as above)
	@PYTHONPATH=tests .venv/bin/python -W ignore -m zoo.zoo_onnx --jobs $(JOBS) $(ZOO_FLAGS)

zoo-decode: build ## models of the zoo that generate, token by token: is the derived step the forward pass? Writes docs/zoo-decode.md (ZOO_FLAGS="--models t5,bart")
	@PYTHONPATH=tests .venv/bin/python -W ignore -m zoo.zoo_decode $(ZOO_FLAGS)

zoo-bench: build ## published models at their published sizes beside torch eager, on an idle machine; writes docs/zoo-bench.md (ZOO_FLAGS="--filter unet")
	@PYTHONPATH=tests .venv/bin/python -W ignore -m zoo.zoo_bench $(ZOO_FLAGS)

people: build ## models as people write them, each recorded, run on both backends, emitted and tested; writes docs/people.md (PEOPLE_FLAGS="--filter gpt")
	@PYTHONPATH=tests .venv/bin/python -m people --jobs $(JOBS) $(PEOPLE_FLAGS)

op-db: build ## torch's operator and module databases, every sample; writes the dated table docs/op-db.md
	@PYTHONPATH=tests .venv/bin/python -m op_db --all --jobs $(JOBS) --backend $(OP_DB_BACKEND) \
	    --markdown docs/op-db$(addprefix -,$(filter-out reference,$(OP_DB_BACKEND))).md

models: build ## write models/ again: well-known models as codegen emits them
	@OMP_NUM_THREADS=1 .venv/bin/python scripts/models.py

faults: build-tests ## faults put into models on purpose: does the verifier find layer, op and cause? (FAULTS_FLAGS="--models bert")
	@PYTHONPATH=tests .venv/bin/python -m faults --jobs $(JOBS) $(FAULTS_FLAGS)
	@$(MAKE) --no-print-directory twins

twins: build-tests ## a part of `make faults`: wrong models beside right ones, and 2,000 clean runs (TWINS_FLAGS="--models rope", "--smollm2 --write")
	@PYTHONPATH=tests .venv/bin/python -W ignore -m faults.twins --jobs $(JOBS) $(TWINS_FLAGS)

bench: build ## whole models beside torch, ONNX Runtime, OpenVINO, candle and llama.cpp; writes docs/benchmarks.md (BENCH_FLAGS="--models minilm")
	@scripts/setup.sh bench
	@PYTHONPATH=python:benchmarks .venv-bench/bin/python -m peers $(BENCH_FLAGS)
	@PYTHONPATH=python:benchmarks .venv-bench/bin/python -m decoding --page docs/decoding-speed.md
	@PYTHONPATH=python:benchmarks .venv-bench/bin/python -m first_token --page docs/decoding-speed.md
	@PYTHONPATH=python:benchmarks .venv-bench/bin/python -m decoding.growth --picture docs/images/decoding-growth.svg

bench-quick: build ## a few of those in under 3 minutes: what moved against benchmarks/baseline.json
	@scripts/setup.sh bench
	@PYTHONPATH=python:benchmarks .venv-bench/bin/python -m peers --quick $(BENCH_FLAGS)

test-asan: ## the C++ tests under the address and undefined-behaviour sanitizers
	@scripts/setup.sh build
	@cmake --preset asan
	@cmake --build --preset asan
	@$(CTEST) --preset asan | $(ONLY_NEWS)

test-tsan: ## the pool, the cpu backend's plans, states and text generation under the thread sanitizer: builds no more than these need
	@scripts/setup.sh build
	@cmake --preset tsan
	@cmake --build --preset tsan
	@TSAN_OPTIONS="halt_on_error=1 die_after_fork=0" build/tsan/tests/test_base_threads --gtest_brief=1
	@TSAN_OPTIONS="halt_on_error=1" build/tsan/tests/test_plans --gtest_brief=1
	@TSAN_OPTIONS="halt_on_error=1" build/tsan/tests/test_packed_weights --gtest_brief=1
	@TSAN_OPTIONS="halt_on_error=1" build/tsan/tests/test_capture_states --gtest_brief=1
	@TSAN_OPTIONS="halt_on_error=1" build/tsan/tests/test_generate_requests --gtest_brief=1

format: ## format C++ and Python sources
	@scripts/setup.sh venv
	@scripts/lint.sh --fix

lint: ## ruff, clang-format, and clang-tidy on the files that changed
	@scripts/setup.sh build venv
	@scripts/lint.sh

fuzz: ## run each libFuzzer target for FUZZ_SECONDS (60)
	@scripts/setup.sh build clang
	@scripts/fuzz.sh $(FUZZ_SECONDS)

requirements: ## resolve requirements/*.in again into the pinned, hashed requirements/*.txt
	@scripts/requirements.sh

web: ## bundle the page of `pycandle report` again: web/ -> web/dist/report.html
	@scripts/setup.sh web
	@scripts/web.sh

wheel: ## build a wheel into dist/
	@scripts/setup.sh build venv
	@scripts/wheel.sh

clean: ## remove what was built; keeps .venv
	rm -rf build dist .pytest_cache .ruff_cache python/pycandle/_core*.so
