# Everything starts here, on a machine with Python >= 3.11 and make: each target sets up .venv by itself when it has to.

VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
FUZZ_MINUTES ?= 30
PEERS ?= .venv-peers
PROGRAMS ?= 10000
EXAMPLES ?= 2000

# What .venv is made with: the first interpreter that is new enough and can make one. `make clean test PYTHON=...` takes another.
SUITABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$python -c "$(SUITABLE)" >/dev/null 2>&1; then echo $$python; break; fi; done)
# A path entry (compat) instead of an import hook: the hook comes after the current folder, so that in the folder that holds a
# clone called graphad `import graphad` would be an empty namespace.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable

# The tests start hundreds of processes; with this set, each would compile graphad anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all docs lint format bench bench-peers pictures stubs mutants pipelines every-pass proofs fuzz viewer clean

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/demo ## Train a small network, and draw its forward and backward graphs
	$(BIN)/graphad demo

# One thread of BLAS a worker: as many as there are cores, times workers, wait for each other in loops that take the cores.
# test-all leaves the number to BLAS, as most users do.
test: $(VENV)/dev ## Run the tests, a few minutes
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-all: $(VENV)/dev ## Run what test leaves out: longer tests, and random programs in greater number
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --long -m "long or hypothesis" --hypothesis-profile=all --hypothesis-seed=1

docs: $(VENV)/docs ## Draw the pictures of the documentation, run its notebooks, build it as a site: open site/index.html
	$(BIN)/python -m tests.pictures > /dev/null
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "built: site/index.html"

lint: $(VENV)/dev ## Check style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev ## Sort imports, mend what can be mended, and format; lint says what is left
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: $(VENV)/dev ## Measure speed and memory
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks

bench-peers: $(VENV)/dev $(PEERS)/peers ## Measure training steps beside torch, JAX, PyTensor, autograd and mygrad, in PEERS (.venv-peers)
	$(BIN)/python -m tests.benchmarks.step_peers --python $(PEERS)/bin/python --write

pictures: $(VENV)/dev ## Draw the pictures in docs/images again
	$(BIN)/python -m tests.pictures

stubs: $(VENV)/dev ## Write the stubs of layers and operators (.pyi) again
	$(BIN)/python -m tests.stubs

proofs: $(VENV)/dev ## Prove the rules of simplify again with z3, and write graphad/rewriting/proofs.json: a quarter of an hour
	$(BIN)/python -m tests.proofs

mutants: $(VENV)/dev ## Measure how many planted mistakes check_pass catches; takes hours (ONLY="rules cse" tries these alone)
	$(BIN)/python -m tests.mutants --jobs $(WORKERS) $(ONLY)

pipelines: $(VENV)/dev ## Try random pipelines of the library's passes on PROGRAMS (10000) random programs: a quarter of an hour
	$(BIN)/python -m tests.pipelines --programs $(PROGRAMS)

every-pass: $(VENV)/dev ## Try every pass of the library on EXAMPLES (2000) random programs, alone and after the backward: an hour
	$(BIN)/python -m tests.every_pass --examples $(EXAMPLES)

fuzz: $(VENV)/dev ## Run the property tests on new random programs for FUZZ_MINUTES (30)
	$(BIN)/python -m tests.fuzz --minutes $(FUZZ_MINUTES) --workers $(WORKERS)

viewer: viewer/node_modules ## Build the program of the pages of graphad view anew (needs Node 20 and npm)
	cd viewer && npm run --silent check && npm run --silent build

viewer/node_modules: viewer/package-lock.json
	cd viewer && npm ci --no-fund --no-audit
	@touch $@

clean: ## Remove .venv, caches and build outputs
	rm -rf $(VENV) .venv-peers build dist site viewer/build viewer/node_modules graphad.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find graphad passes tests -type d -name __pycache__ -prune -exec rm -rf {} +

# Files in .venv that stand for what was installed there, so that it is done again only when pyproject.toml changes.
$(VENV)/demo: pyproject.toml $(VENV)/made
	@echo "Installing graphad and what the demo needs into $(VENV) ..."
	@$(INSTALL) '.[demo]'
	@touch $@

$(VENV)/dev: pyproject.toml $(VENV)/made
	@echo "Installing graphad and the tools of its developers into $(VENV) ..."
	@$(INSTALL) '.[dev]'
	@touch $(VENV)/demo $@

$(VENV)/docs: pyproject.toml $(VENV)/dev
	@echo "Installing what the documentation is built with into $(VENV) ..."
	@$(INSTALL) '.[dev,docs]'
	@touch $@

# PEERS may be an environment that is there, which then gets what it lacks.
$(PEERS)/peers: tests/benchmarks/step_peers/requirements.txt $(VENV)/made
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo "Installing the peers into $(PEERS) ..."
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(VENV)/made:
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 with venv and ensurepip found; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c "$(SUITABLE)" || { echo "make: $(PYTHON) is older than Python 3.11, or lacks venv and ensurepip" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
