# For everybody: `make demo` and `make test` (minutes); `make audit` is the long ring of tests. All set up what they need in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= demo-output
WORKERS ?= 2
# whole files for each worker, so that what a file prepares is prepared once; the longest first (tests/rings.py)
# one kind of matrix products on every processor: with others, networks are asked about one row at a time, which is slow
RINGS  := OPENBLAS_CORETYPE=Sandybridge OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test audit check coverage evidence docs pictures clean

demo: $(VENV)/demo.stamp
	$(BIN)/dpexplain demo --out $(OUT)

test: $(VENV)/test.stamp check
	$(RINGS) -m "not long" --ignore=tests/unit/test_architecture.py  # which `check` has run

audit: $(VENV)/test.stamp $(VENV)/docs.stamp
	$(RINGS) -m "long or random_inputs"

check: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit/test_architecture.py -p no:xdist

coverage: $(VENV)/test.stamp
	$(BIN)/python -m pytest --cov=src/dpexplain/core --cov=src/dpexplain/ledger --cov-branch --cov-report=term-missing tests/unit tests/privacy tests/property tests/e2e

evidence: $(VENV)/test.stamp
	$(BIN)/python -m bench.evidence

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

pictures: $(VENV)/test.stamp
	$(BIN)/python docs/pictures.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dpexplain needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/demo.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/test.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@ $(VENV)/demo.stamp

$(VENV)/docs.stamp: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(OUT) build dist site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
