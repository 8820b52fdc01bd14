# Everything is done inside this folder: .venv (packages), .cache (downloads, compiled graphs), dist, out.
#
#   make install the packages, into .venv
#   make demo    page images through three models, in processes; results in out/
#   make test    the whole test suite        make lint      ruff, mypy, import-linter
#   make bench   measurements                make coverage  branch coverage of the core
#   make wheels  the packages, into dist/    make clean     remove what was made (keeps downloads)

PYTHON ?= python3
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml plugins/*/emulator/pyproject.toml))
EXAMPLES := $(patsubst %/pyproject.toml,%,$(wildcard examples/*/pyproject.toml))
DISTRIBUTIONS := . $(PLUGINS)
# What an editable install is made from: Python sources are read in place, C sources are built.
INPUTS := constraints.txt $(addsuffix /pyproject.toml,$(DISTRIBUTIONS) $(EXAMPLES)) \
	$(wildcard plugins/*/setup.py plugins/*/src/*/*.[ch] plugins/*/src/*/*.cc plugins/*/src/*/*/*.[ch] plugins/*/src/*/bindings/*.py \
	plugins/*/emulator/*.py plugins/*/emulator/cpp/* plugins/*/emulator/src/*/home/include/acl/*.h)

# No pip, no dflow and no tool writes into the home folder.
export XDG_CACHE_HOME := $(CURDIR)/.cache
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where this is set, every executor would compile our sources again, and start-up times would mean nothing.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(CURDIR)/$(BIN):$(PATH)
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

PYTEST := $(BIN)/python -m pytest --config-file pyproject.toml --rootdir .
# A file's tests stay together, for what they share; TEST_JOBS=0 runs all in one process.
TEST_JOBS ?= $(shell n=$$(nproc); echo $$((n < 4 ? n : 4)))

.PHONY: help install demo test lint bench wheels coverage docs clean distclean

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here; set PYTHON=/path/to/python3.10 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "make: $$($(PYTHON) --version) is too old; set PYTHON=/path/to/python3.10 or newer" >&2; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null \
		|| { echo "make: no C compiler; install one (Debian, Ubuntu: apt-get install build-essential)" >&2; exit 1; }
	@echo "== making $(VENV)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "make: no venv module; install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@$(PIP) setuptools wheel cffi numpy
	@touch $@

# One pip command for all: it then takes our own packages from these folders and asks no registry for them.
$(VENV)/.installed: $(VENV)/.made $(INPUTS)
	@echo "== installing the core, $(PLUGINS) $(EXAMPLES)"
	@$(PIP) --no-build-isolation --editable '.[cli]' $(foreach d,$(PLUGINS) $(EXAMPLES),--editable ./$(d))
	@touch $@

$(VENV)/.tools: $(VENV)/.installed requirements-dev.txt
	@echo "== installing test tools"
	@$(PIP) --requirement requirements-dev.txt
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	@$(BIN)/dflow demo -- $(DEMO_ARGS)

test: $(VENV)/.tools
	@$(PYTEST) --numprocesses $(TEST_JOBS) --dist loadfile --no-loadscope-reorder $(TEST_ARGS)

lint: $(VENV)/.tools
	$(BIN)/ruff check --config pyproject.toml .
	$(BIN)/mypy dflow_core $(foreach p,$(PLUGINS),$(patsubst %/__init__.py,%,$(wildcard $(p)/src/*/__init__.py)))
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.tools
	@$(BIN)/python -m bench $(BENCH_ARGS)

wheels: $(VENV)/.made
	@rm -rf dist && mkdir -p dist
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist $(foreach d,$(DISTRIBUTIONS),./$(d))
	@ls -1 dist

coverage: $(VENV)/.tools
	@rm -rf .coverage && mkdir -p .coverage
	@$(BIN)/python -m coverage run -m pytest --config-file pyproject.toml --rootdir . --timeout 180 $(TEST_ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --fail-under 90

docs: $(VENV)/.tools
	@$(BIN)/python docs/build_reference.py

clean:
	rm -rf $(VENV) dist out .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name '*.egg-info' -prune -exec rm -rf {} +
	find dflow_core plugins examples tests bench docs -name __pycache__ -prune -exec rm -rf {} +
	find plugins examples . -maxdepth 2 -name build -type d -prune -exec rm -rf {} +
	find plugins -name '*.so' -delete

distclean: clean
	rm -rf .cache
