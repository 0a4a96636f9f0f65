# Two commands matter to a newcomer: `make demo` and `make test`.  Each makes its own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := $(shell find crates -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock
SCHEMA := $(wildcard src/turnbuckle/foundation/schema/*.csv)

# Every pip below installs these exact versions, and so does the pip that maturin runs.  Empty, pip installs the newest that pyproject.toml allows.
# The path is relative because pip splits the value at blanks.
export PIP_CONSTRAINT := constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Of `make lock`.  Empty, the versions already locked stay.
UPGRADE := --upgrade

.PHONY: demo test test-newest check core golden lock lint types imports rust pytest bench fuzz docs sdist wheels clean

demo: $(VENV)/installed
	$(BIN)/turnbuckle demo

# Before what is to land: everything.
test: lint types imports rust pytest

# Before every commit: what is fast, and the tests that see most mistakes.
check: lint types imports core

# The first list shows the releases that the bounds in pyproject.toml hold back.
test-newest:
	rm -rf build/newest
	$(MAKE) build/newest/installed-dev build/newest/installed-docs VENV=build/newest PIP_CONSTRAINT=
	build/newest/bin/python -m pip list --outdated --disable-pip-version-check
	$(MAKE) test docs VENV=build/newest PIP_CONSTRAINT=

# One version of each package for all Pythons, the lowest that pyproject.toml allows included.
lock: PIP_CONSTRAINT :=
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13'
	build/lock/bin/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --fork-strategy fewest --all-extras \
	  --custom-compile-command "make lock (newest of everything), make lock UPGRADE= (adds only what pyproject.toml newly asks for)" \
	  --output-file constraints.txt pyproject.toml

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

imports: $(VENV)/installed-dev
	$(BIN)/lint-imports

rust: $(VENV)/installed-dev
	cargo fmt --check
	cargo clippy --locked --all-targets --release -- -D warnings
	cargo test --locked --release

# As many workers as there are cores, each with one thread; a file's tests stay together, since they share what they made.
# Compiled modules are kept, whatever the shell says: every worker reads every test, and many tests start the program anew.
PYTEST := PYTHONDONTWRITEBYTECODE= POLARS_MAX_THREADS=1 $(BIN)/pytest -n auto --dist loadfile
pytest: $(VENV)/installed-dev
	$(PYTEST)

# The answers of most verbs (those that take long, reports, sweeps and cases are left to `make test`), the heart, identity, errors, the tree of the rooms.
CORE := tests/golden tests/projection/test_model.py tests/projection/test_project.py tests/replay/test_sum.py tests/replay/contention/test_critical.py tests/laws/test_identity.py \
	tests/test_architecture.py tests/foundation/test_errors.py tests/foundation/test_findings.py tests/foundation/test_units.py
core: $(VENV)/installed-dev
	$(PYTEST) -m "not slow and not cluster" $(CORE)

# Renews the answers that tests/golden keeps, and prints what has changed in them.
golden: $(VENV)/installed-dev
	$(BIN)/python tests/golden/renew.py

bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/installed-dev
	$(BIN)/python validation/fuzz/run.py
	$(BIN)/python validation/fuzz/twins.py
	TURNBUCKLE_EXAMPLES=all $(PYTEST) -m hypothesis
	TURNBUCKLE_EXAMPLES=all $(PYTEST) tests/mpi/replay/test_fuzzed_programs.py

sdist wheels: $(VENV)/installed-release
	$(BIN)/python packaging/release.py $@

docs: $(VENV)/installed-docs
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --strict

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Turnbuckle needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The native core is built in place, so that the Python sources can be edited without a rebuild.
$(VENV)/installed: $(BIN)/python pyproject.toml $(PIP_CONSTRAINT) $(RUST) $(SCHEMA)
	$(PIP_INSTALL) 'maturin>=1.16,<2'
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --locked --release --quiet
	touch $@

$(VENV)/installed-%: $(VENV)/installed
	$(PIP_INSTALL) $$($(BIN)/python -c 'import tomllib; print(*(f"\"{r}\"" for r in tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$*"]))' | xargs -n1 echo)
	touch $@

clean:
	rm -rf $(VENV) target build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
