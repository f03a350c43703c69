# Each target sets up what it needs in .venv, once: a stamp per set of extras, renewed when pyproject.toml changes.
# Inside the make process the registry configuration is whatever pip is set up with on this machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= auto

.PHONY: demo test bench lint types clean

demo: $(VENV)/.installed-experiments,report
	$(BIN)/energyalign demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS)

bench: $(VENV)/.installed-test
	$(BIN)/python bench/run.py

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/mypy

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "energyalign needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The pattern is the name of one or more extras of pyproject.toml.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
