# Each target sets itself up: a machine with python3 and a package index is enough. What is installed must have the hashes
# of requirements.lock; the build of this package uses the setuptools from there, too.
PYTHON ?= python3
BIN := .venv/bin

# Two at a time; results do not depend on it.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo check test test-slow lint bench mutate fuzz clean

demo: .venv/ready
	$(BIN)/commonground demo --out demo

check: lint
	$(PYTEST) -m "not slow" tests/accounting tests/gate tests/denoise tests/heads tests/billboard tests/test_architecture.py \
		tests/test_walks.py tests/test_packaging.py tests/mutation

test: lint
	$(PYTEST) -m "not slow"

test-slow: .venv/ready
	$(PYTEST) -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python benchmarks/speed.py

mutate: .venv/ready
	$(BIN)/python tests/mutation/mutate.py

fuzz: .venv/ready
	$(BIN)/python benchmarks/fuzz_readers.py --runs 20000

.venv/ready: pyproject.toml requirements.lock requirements-torch.lock
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-torch.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv demo bench
