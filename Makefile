# make demo    learn a stream, with a table and a picture at the end
# make test    the tests, except for long ones: five minutes on two cores
# make test-long   the long ones: whole grids of the law, kills, clusters that lose workers, bounds checks, a browser
# make test-all    both
# make lint    style, types and architecture
# make docs    the documentation site, into docs/_build/html
# make gallery every picture that the library draws, into out/gallery
# make bench   the benchmarks; the table is in benchmarks/README.md
# make reproduce       the paper's experiments, small: minutes. Results in results/quick
# make reproduce-full  the same at the paper's settings: about three and a half hours on two cores. Results in docs/results.md
#                      Both look for datasets in the folder BSPFOREST_DATA, and go on where an earlier run stopped.
# make clean   remove the environment and everything built

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
WORKERS ?= 2
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --durations=25

.PHONY: demo test test-long test-all lint docs gallery bench reproduce reproduce-full clean

# One stamp a set of extras: the environment is made once, and again when pyproject.toml changes.
$(VENV)/.cli: EXTRAS = cli
$(VENV)/.dev: EXTRAS = dev
$(VENV)/.docs: EXTRAS = docs
$(VENV)/.bench: EXTRAS = bench,cli
$(VENV)/.experiments: EXTRAS = experiments

$(VENV)/.%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(VENV)/.cli
	$(BIN)/bspforest demo

test: $(VENV)/.dev
	$(BIN)/bspforest compile
	$(PYTEST) -m 'not long'

test-long: $(VENV)/.dev
	$(BIN)/bspforest compile
	$(PYTEST) -m long

test-all: test test-long

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/bspforest compile
	$(BIN)/sphinx-build -b html -W --keep-going -q docs docs/_build/html
	@echo 'Open docs/_build/html/index.html'

gallery: $(VENV)/.cli
	$(BIN)/python examples/gallery.py

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/command.py

reproduce: $(VENV)/.experiments
	$(BIN)/python -m experiments

reproduce-full: $(VENV)/.experiments
	$(BIN)/python -m experiments --full

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/api/generated docs/gallery docs/pictures
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
