# Everything here works on a fresh clone with Python 3.11, pip and make; each target installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := .demo/models
MODEL := smollm2-135m
STAMP := $(VENV)/installed
# Flower must neither phone home nor look for updates from any process that we start.
export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install model demo test test-all lint format clean bench-serving bench-sweep bench-loop-lag bench-precision

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

install: $(STAMP)  ## make .venv with every extra, from packaging/constraints.txt

$(STAMP): pyproject.toml packaging/constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or later is needed: set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed, this is $$($(PYTHON) --version)"; exit 1; }
	@echo "==> installing into $(VENV) (about 2 GB, once)"
	$(PYTHON) -m venv $(VENV)
	@# torch by its exact version first: an open range would pull gigabytes of CUDA libraries.
	$(BIN)/python -m pip install -q -c packaging/constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -q -c packaging/constraints.txt -e '.[edge,train,server,dev]'
	@touch $@

# Both look first at what is there, and take a second when it is whole and of this release's form.
model: $(STAMP)  ## fetch and export the real model into .demo/models
	@$(BIN)/fedaigc-edge model pull $(MODEL) --models $(MODELS)
	@$(BIN)/fedaigc-edge model export $(MODEL) --models $(MODELS)

demo: $(STAMP) model  ## the whole loop: server, two devices, an officer, a real model; ends with one JSON line
	$(BIN)/python -m tests.demo --work .demo --models $(MODELS)

test: lint model  ## static checks and every quick test
	$(BIN)/python -m pytest -m "not slow"

test-all: lint model  ## also the tests that start real processes and kill them
	$(BIN)/python -m pytest

# QUICK=1 measures less, in under four minutes.
BENCH = $(BIN)/python -m bench.$(1) --models $(MODELS) --model $(MODEL) $(if $(QUICK),--quick)

bench-serving: $(STAMP) model  ## our server with everything on beside llama.cpp's, on one core (QUICK=1)
	@$(call BENCH,serving)

bench-sweep: $(STAMP) model  ## prompts of 64 to 4096 tokens: prefill, decode, memory (QUICK=1)
	@$(call BENCH,sweep)

bench-loop-lag: $(STAMP) model  ## how late the event loop runs with 128 callers (QUICK=1)
	@$(call BENCH,loop_lag)

bench-precision: $(STAMP) model  ## each precision's size, speed and quality, and their Pareto front (QUICK=1)
	@$(call BENCH,precision)

lint: $(STAMP)  ## ruff, mypy strict, Dockerfiles
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint packaging/docker/*.Dockerfile

format: $(STAMP)  ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what the targets made, the virtual environment excepted
	rm -rf .demo .bench .mypy_cache .ruff_cache .hypothesis build dist
