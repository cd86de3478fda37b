# Needs make and Python >= 3.11, nothing else: each command makes its own environment on first use
# and makes it anew when pyproject.toml or the constraints change.
#   make test PYTHON=python3.12 VENV=.venv312      another interpreter, beside the first

PYTHON ?= python3
VENV ?= .venv
OUT ?= results
SITE ?= docs/_build/html
ARGS ?=
# Tests of a file stay in one process, which compiles what they share once, until another has none left.
SPREAD := -n auto --dist worksteal

BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])' 2>/dev/null)
CONSTRAINTS ?= $(wildcard constraints/py$(VERSION).txt)
# Bytecode is written by the first import of what is imported: a third of all, in half the time.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
       $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
# One stamp per interpreter version: another version makes the environment anew.
MADE := $(VENV)/.made-$(VERSION)

.PHONY: help demo synthetic compile test slow pymc pymc-tests clusters clusters-tests lint format types bench bench-chains docs docs-serve build clean python
.DELETE_ON_ERROR:

help:
	@echo 'make demo    choose an ARCH model, every step subsampled: tables and figures in $(OUT)/arch'
	@echo '             with your own bars: make demo ARGS="--data bars.csv.gz --both"'
	@echo 'make synthetic   the synthetic experiment, quick: tables and figures in $(OUT)/'
	@echo 'make compile the machine code that all models share, once per machine: optional'
	@echo 'make test    the tests; some of them: make test ARGS="-k betting"'
	@echo 'make slow    the slow tests'
	@echo 'make pymc    the tests of the bridge to PyMC, in an environment of their own'
	@echo 'make clusters   the tests of dask, ray, Parquet and polars, on this machine, in one of their own'
	@echo 'make lint    ruff, check and format    make format    apply both'
	@echo 'make types   mypy'
	@echo 'make bench   benchmarks of draws, as a table    make bench-chains   of chains'
	@echo 'make docs    the documentation site, in docs/_build/html; it executes the notebooks'
	@echo 'make docs-serve   the same, on http://127.0.0.1:8000'
	@echo 'make build   the wheel and the source distribution, in dist/'
	@echo 'make clean   remove the environment and everything built'

demo: $(MADE)-plots
	$(BIN)/python examples/arch_model_selection.py --output $(OUT)/arch $(ARGS)

synthetic: $(MADE)-plots
	$(BIN)/python examples/synthetic.py --quick --out $(OUT)/

# Optional: on all cores, what the tests would compile on the way, in some of them twice.
compile: $(MADE)
	$(BIN)/subsample-mcmc compile

test: $(MADE)-test
	$(BIN)/python -m pytest $(SPREAD) -m 'not slow' $(ARGS)

slow: $(MADE)-test
	$(BIN)/python -m pytest $(SPREAD) -m slow $(ARGS)

# PyMC 5 holds numba back, so its environment and its versions are its own.
pymc:
	@$(MAKE) --no-print-directory pymc-tests VENV=$(VENV)-pymc \
	  CONSTRAINTS=$(wildcard constraints/pymc-py$(VERSION).txt)

pymc-tests: $(MADE)-pymc,test
	$(BIN)/python -m pytest $(SPREAD) tests/pymc tests/target/test_indices.py::test_models_of_pymc \
	  tests/test_docs.py::test_code_with_other_tools_runs \
	  tests/test_docs.py::test_other_tools_find_the_same \
	  "tests/test_docstrings.py::test_examples_give_what_they_say[from_pymc]" \
	  tests/test_docstrings.py::test_every_argument_of_a_step_of_pymc_is_told_of $(ARGS)
	$(BIN)/python examples/pymc_bridge.py

# Dask, ray and pyarrow bring some hundred megabytes that nothing else here needs.
clusters:
	@$(MAKE) --no-print-directory clusters-tests VENV=$(VENV)-clusters \
	  CONSTRAINTS=$(wildcard constraints/clusters-py$(VERSION).txt)

clusters-tests: $(MADE)-dask,ray,parquet,zarr,polars,test
	$(BIN)/python -m pytest tests/runs/test_clusters.py tests/target/sources \
	  tests/target/elsewhere tests/target/reuse tests/target/test_frames.py \
	  tests/target/test_names_of_columns.py tests/test_examples.py::test_rows_in_files \
	  "tests/test_docs.py::test_code_with_other_tools_runs[docs/guides/rows-beyond-memory-0-pyarrow]" \
	  "tests/test_docstrings.py::test_examples_give_what_they_say[parquet]" $(ARGS)

lint: $(MADE)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(MADE)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(MADE)-dev
	$(BIN)/mypy

bench: $(MADE)-plots
	$(BIN)/python -m tests.benchmarks.draws $(ARGS)

bench-chains: $(MADE)-plots
	$(BIN)/python -m tests.benchmarks.chains $(ARGS)

# Warnings are errors; notebooks are executed, two at a time.
docs: $(MADE)-docs
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m sphinx -b html -j 2 -W --keep-going -q \
	  docs $(SITE) $(ARGS)
	@echo 'written: $(SITE)/index.html'

docs-serve: docs
	$(BIN)/python -m http.server 8000 --bind 127.0.0.1 --directory $(SITE)

build: $(MADE)-dev
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) $(VENV)-pymc $(VENV)-clusters $(OUT) docs/_build docs/gallery/made docs/reference/made build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find subsample_mcmc tests examples notebooks -name __pycache__ -type d -prune -exec rm -rf {} +

# -------------------------------------------------------------------------------- environment
python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1)' || { \
	  echo "subsample_mcmc needs Python >= 3.11, and '$(PYTHON)' is" \
	       "$$($(PYTHON) --version 2>&1 | head -n 1)." \
	       "Name one that is: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12"; exit 1; }

# `python` is order-only: looked at every time, never a reason to make the environment anew.
$(MADE): pyproject.toml $(CONSTRAINTS) | python
	@echo "Making $(VENV) with $$($(PYTHON) --version) (first use, about a minute) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(MADE)-%: $(MADE)
	@$(PIP) --editable '.[$*]'
	@touch $@
