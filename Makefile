# Each target sets itself up: a machine with python3 and a package index is enough. What is installed must have the hashes
# of requirements-core.lock (the package) or requirements.lock (to work on it); the build uses the setuptools from there, too.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Two at a time; results do not depend on it.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: demo check test test-slow browser-test lint docs wheel bench mutate fuzz clean

demo: .venv/core
	$(BIN)/commonground demo --out demo

check: lint
	$(PYTEST) -m "not slow" tests/accounting tests/gate tests/denoise tests/billboard tests/test_architecture.py \
		tests/test_docstrings.py tests/test_packaging.py tests/test_threads.py tests/mutation/test_mutations.py

test: lint
	$(PYTEST) -m "not slow"

test-slow: .venv/ready
	$(PYTEST) -m slow

# The report and the page in a real browser: the distribution's Chromium, Playwright, axe-core. Screenshots land in .browser.
browser-test: .venv/browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium; } || \
		{ echo "There is no Chromium here; install the package chromium (as root: apt-get install chromium)."; exit 1; }
	cd tests/browser && npm ci --silent --no-audit --no-fund
	SCREENSHOTS=.browser $(BIN)/python -m pytest -m "not slow" tests/browser

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/ready
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs site

# The wheel, in an environment that has nothing else: as those get it who never see this file.
wheel:
	rm -rf .wheel && $(PYTHON) -m venv .wheel/env
	.wheel/env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w .wheel .
	.wheel/env/bin/python -m pip install --quiet --disable-pip-version-check .wheel/commonground-*.whl
	cd .wheel && env/bin/python ../.ci/wheel.py

bench: .venv/ready
	$(BIN)/python benchmarks/speed.py

mutate: .venv/ready
	$(BIN)/python tests/mutation/mutate.py

fuzz: .venv/ready
	$(BIN)/python benchmarks/fuzz_readers.py --runs 20000

.venv/core: pyproject.toml requirements-core.lock
	$(PYTHON) -m venv .venv
	$(PIP) --no-compile --require-hashes -r requirements-core.lock
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

.venv/ready: .venv/core requirements.lock requirements-torch.lock
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) -r requirements-torch.lock
	touch $@

.venv/browser: .venv/ready requirements-browser.lock
	$(PIP) --require-hashes -r requirements-browser.lock
	touch $@

clean:
	rm -rf .venv .wheel .browser demo bench site tests/browser/node_modules
