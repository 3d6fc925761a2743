# Everything happens in a private .venv; `make` alone says what there is.
PYTHON ?= python3.11
EXTRAS ?= dev,flower
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests start many processes: byte code is kept also where the environment forbids it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test slow golden golden-check check bench docs site clean

help: ## Say what the targets do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(READY) ## Install Coterie and its tools into .venv

$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/coterie/native/*.cpp src/coterie/native/*.inc src/coterie/native/*.h)
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found; name another: make PYTHON=python3 $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

demo: $(READY) ## Run the demonstration on the embedded data
	$(BIN)/coterie demo

quick: $(READY) ## Run the tests that take a moment, for use before a commit
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not integration" --durations 5 tests

test: $(READY) ## Run all tests but the long ones
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

slow: $(READY) ## Run the long tests on real data (COTERIE_DATA or ../shared/data), and many generated examples
	$(BIN)/python -m pytest -q -m slow
	$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile thorough

golden: $(READY) ## Write the golden results: numbers that a change of the code must not change
	$(BIN)/python tests/golden/golden.py write

golden-check: $(READY) ## Run the cases of the golden results again and compare
	$(BIN)/python tests/golden/golden.py check

check: $(READY) ## Check format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

bench: $(READY) ## Measure speed and memory, as ratios in one run
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/memory.py
	unshare -rn sh -c 'ip link set lo up; $(BIN)/python benchmarks/engines.py'
	$(BIN)/python benchmarks/coreset.py

docs: $(READY) ## Check that the examples in README and docs run
	$(BIN)/python -m pytest -q README.md docs tests/test_docs.py

site: $(READY) ## Build the documentation into site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

clean: ## Remove .venv and everything that tools left
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
