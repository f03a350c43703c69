# Each target sets up what it needs in .venv, once: a stamp per set of extras, renewed when pyproject.toml changes.
# pip uses the package index that is configured on this machine.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEER   := .venv-avalanche
LOWEST := .venv-lowest
SBOM   := .venv-sbom
PACK   := .venv-package
JOBS   ?= auto
# Versions to install instead of the newest: `make test CONSTRAINTS=constraints.txt`, before .venv is there.
CONSTRAINTS ?=

.PHONY: demo test test-faults test-lowest bench bench-full efficacy docs lint types sbom package constraints release-notes clean

demo: $(VENV)/.installed-experiments,report
	$(BIN)/energyalign demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS)

# Tests that take too long for every change (processes killed at random moments, full disks, mutated files) and those of
# all other promises in docs/guarantees.md; prints how many trials each promise has passed. Takes an hour.
test-faults: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) -m "faults or fuzz or promise"

# With exactly the oldest versions that pyproject.toml declares, without trainers and Ray. Old libraries warn about each
# other's age; old scikit-learn needs SCIPY_ARRAY_API.
test-lowest: $(LOWEST)/.installed
	SCIPY_ARRAY_API=1 $(LOWEST)/bin/python -m pytest -n $(JOBS) -W ignore::DeprecationWarning \
		tests/core tests/sklearn tests/files tests/onnx_files tests/report/figures \
		$(addprefix tests/cli/test_,apply_command.py fit_command.py heads_commands.py onnx_command.py hostile_names.py) \
		tests/experiments/longtail/test_longtail_experiment.py

bench: $(VENV)/.installed-test
	$(BIN)/python -m bench

# Adds what takes longer: growth, memory, and a peer in its own virtual environment.
bench-full: $(VENV)/.installed-test $(PEER)/.installed
	$(BIN)/python -m bench --full

# Gains and losses of `auto` on data of scikit-learn and on the logits in results/: docs/efficacy.md.
efficacy: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.efficacy

# Warnings and broken references are errors. Neither building nor reading the pages needs the network.
docs: $(VENV)/.installed-docs
	@rm -rf docs/api # generated: pages of removed names would stay
	MPLBACKEND=Agg $(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky -b html docs docs/_build/html
	@! grep -rE '<(script|link|img|iframe)[^>]* (src|href)="(https?:)?//' docs/_build/html --include='*.html'
	@echo 'Open docs/_build/html/index.html'

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test $(VENV)/.installed-lint
	$(BIN)/mypy

# Bill of materials for a release: the packages in .venv with all extras of the tests (CycloneDX, sbom.json).
sbom: $(VENV)/.installed-test $(SBOM)/.installed
	$(SBOM)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file sbom.json $(BIN)/python

# Build the sdist, build the wheel from it, and try the wheel in a clean environment with only its dependencies.
package: $(PACK)/.installed
	rm -rf dist
	$(PACK)/bin/python -m build --quiet
	$(PYTHON) -m venv --clear $(PACK)/clean
	$(PACK)/clean/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	$(PACK)/clean/bin/python -I .ci/try_wheel.py

# Versions of all packages in .venv for tests, style, types and documentation, without local and direct installs.
constraints: $(VENV)/.installed-test $(VENV)/.installed-lint $(VENV)/.installed-docs
	{ echo '# Versions for reproducible development, made by `make constraints` with Python 3.11. See CONTRIBUTING.md.'; \
		$(BIN)/python -m pip freeze --exclude-editable | grep -v ' @ ' | sed 's/+.*//'; } > constraints.txt

# Extract the section of a version from CHANGELOG.md; fail unless package and citation have that version:
# make release-notes TAG=v0.1.0
release-notes:
	grep -qx '__version__ = "$(TAG:v%=%)"' src/energyalign/__init__.py
	grep -qx 'version: $(TAG:v%=%)' CITATION.cff
	sed -n '/^## $(TAG:v%=%) - 20/,/^## /{/^## /!p;}' CHANGELOG.md > release-notes.md
	test -s release-notes.md # empty: CHANGELOG.md has no heading such as `## 0.1.0 - 2026-12-31`

clean:
	rm -rf $(VENV) $(PEER) $(LOWEST) $(SBOM) $(PACK) dist docs/_build docs/api docs/auto_examples

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "energyalign needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The pattern is the name of one or more extras of pyproject.toml.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS)) \
		--editable '.[$*]'
	@touch $@

# With our version of torch, so that only the libraries differ.
$(PEER)/.installed: $(VENV)/.installed-test
	$(PYTHON) -m venv --clear $(PEER)
	$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check avalanche-lib==0.6.0 \
		"torch==$$($(BIN)/python -c 'import torch; print(torch.__version__.partition("+")[0])')"
	@touch $@

$(SBOM)/.installed:
	$(PYTHON) -m venv --clear $(SBOM)
	$(SBOM)/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7'
	@touch $@

$(PACK)/.installed:
	$(PYTHON) -m venv --clear $(PACK)
	$(PACK)/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.2'
	@touch $@

# pip installs the newest versions; uv can install the oldest declared ones. That torch includes 5 GB for GPUs.
$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --system-certs --python $(LOWEST)/bin/python --resolution lowest-direct \
		--editable '.[test-light,experiments]'
	@touch $@
