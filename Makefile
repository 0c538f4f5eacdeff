# make demo   the paper's four experiments, in sample and on fresh rows: a page with figures and tables, demo/report.html
# make check  the quick checks, in a few minutes: style, types, rooms and the tests that are not marked slow
# make test   every check: style, types, rooms, tests with coverage and in a browser, documentation, the wheel by itself
# make portable   the tests whose outcome could hang on the last bit, on simulated processors; PORTABLE=--all for all
# make docs   the documentation, build/docs/index.html; broken links and examples that fail are errors
# All create .venv and install what they need; a Python of at least 3.11 is all they ask for. The tests want Chromium and
# PostgreSQL, which are installed as Debian's packages where there are none.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TESTS := BUILT_SITE=build/docs $(BIN)/python -m pytest --quiet --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# every process that tests start would otherwise compile all modules anew
unexport PYTHONDONTWRITEBYTECODE

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: demo check test lint types rooms quick pytest portable browser database site docs pictures wheel benchmarks constraints clean clean-cache
.DELETE_ON_ERROR:

demo: $(READY)
	$(BIN)/optensemble reproduce --out demo

check: lint types rooms quick

# what needs one core goes side by side, the longest first, and the tests, which take both, come after
test: $(READY)
	$(MAKE) --jobs=2 --output-sync=target lint types site wheel rooms
	$(MAKE) pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

rooms: $(READY)
	$(BIN)/lint-imports

quick: $(READY)
	$(BIN)/python -m pytest --quiet --numprocesses=2 --dist=loadfile -m "not slow and not browser" tests

# measuring coverage takes half as long again: tests of many trials or of other processes go without, and come first,
# so that kernels are compiled without it too
pytest: $(READY) browser database site
	$(TESTS) -m no_cover --doctest-glob='*.md' tests src README.md docs
	$(TESTS) -m "not no_cover" --cov --cov-report=term

portable: $(READY)
	$(BIN)/python tests/portable.py $(PORTABLE)

browser:
	for name in chromium chromium-browser google-chrome; do command -v $$name && exit; done; \
	$(SUDO) apt-get update --quiet && $(SUDO) apt-get install --quiet --yes --no-install-recommends chromium

# the tests start a server of their own from it; one that the package itself would start is not needed
database:
	ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres || { \
	$(SUDO) apt-get update --quiet && $(SUDO) apt-get install --quiet --yes --no-install-recommends postgresql; }

site: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -n docs build/docs

docs: site
	BUILT_SITE=build/docs $(BIN)/python -m pytest --quiet --doctest-glob='*.md' docs tests/test_docs.py

# drawn from seeded runs, in about a minute; look at them
pictures: $(READY) browser
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/screenshots.py

# imported from an empty folder, so that nothing but the wheel is found
wheel: $(READY)
	rm -rf build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel
	$(PYTHON) -m venv --clear build/wheel/env
	build/wheel/env/bin/pip install --quiet build/wheel/*.whl
	mkdir -p build/wheel/empty && cd build/wheel/empty && ../env/bin/python ../../../tests/wheel_check.py && \
	../env/bin/optensemble --version

benchmarks: $(READY)
	$(BIN)/python benchmarks/loop.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/in_sample.py
	$(BIN)/python benchmarks/honesty.py
	$(BIN)/python benchmarks/feasible.py
	$(BIN)/python benchmarks/decide.py
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/cross_validation.py
	$(BIN)/python benchmarks/cross_fitting.py
	$(BIN)/python benchmarks/generators.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/live_cost.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/certificate.py
	$(BIN)/python benchmarks/monitor.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "optensemble needs Python 3.11 or newer"'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev --group docs --constraint constraints.txt
	touch $@

constraints:
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade pip
	build/constraints/bin/python -m pip install --quiet --editable . --group dev --group docs
	build/constraints/bin/python -m pip freeze --exclude-editable > constraints.txt

clean-cache:
	find src tests -name '*.nb[ic]' -delete

clean: clean-cache
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage .hypothesis
