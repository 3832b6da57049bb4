# Everything here works in the checkout's own .venv, made on first use.
# Needs git, make and Python 3.11 or newer; `make test PYTHON=python3.12` picks another one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test test-fast lint format docs docs-serve bench bench-gpu kernels-full fuzz soak coverage \
	test-floors test-floors-core test-floors-hosts mutation release-check

help:
	@echo "make demo       compare caches on a small real model"
	@echo "make test       run every test"
	@echo "make test-fast  run the tests that need no model and build nothing"
	@echo "make lint       ruff and mypy"
	@echo "make format     let ruff rewrite what it can"
	@echo "make docs       build the documentation site into site/, warnings are errors"
	@echo "make docs-serve show it while you write"
	@echo "make bench      distortion over theory; attention, encoding and a model timed here"
	@echo "make bench-gpu  check every GPU kernel on this machine's GPU, and time each"
	@echo "make coverage   every test with the lines of tqcore counted, subprocesses too; 95 % must run"
	@echo "make test-floors  the quick tests with the oldest dependencies, without hosts and with them"
	@echo "make mutation   small changes to the codec core, which the tests must notice (hours)"
	@echo "make release-check  build, check what is in the wheel, install it alone, run a real model"
	@echo "make fuzz       damaged files, strings and numbers, 200 times what the tests try"
	@echo "make soak       an hour of operations on caches, memory watched; MINUTES=10 for less"
	@echo "make kernels-full  every kernel, width, head_dim and dtype on the Metal emulator; goes on where it ended"

demo: $(STAMP)
	$(BIN)/tqcore demo

test: $(STAMP)
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test-fast: $(STAMP)
	$(BIN)/python -m pytest -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The variable silences a notice about the theme's successor, which is no warning.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(STAMP)
	$(BIN)/python benchmarks/distortion.py
	$(BIN)/tqcore bench attention
	$(BIN)/tqcore bench encode
	$(BIN)/tqcore bench generate

bench-gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py

kernels-full: $(STAMP)
	$(BIN)/python -m tests.kernels.full

coverage: $(STAMP)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# An environment of its own each; tests/floors/*.txt name every version.
WITHOUT_HOSTS := attention cache contract core doctor fuzz golden kernels measure msl properties soak

test-floors: test-floors-core test-floors-hosts

test-floors-core:
	$(PYTHON) -m venv .venv-floors-core
	.venv-floors-core/bin/pip install --quiet --constraint tests/floors/core.txt --editable ".[cpu,fast,report,msl,testing]"
	.venv-floors-core/bin/python -m pytest -m "not slow" $(addprefix tests/,$(WITHOUT_HOSTS))

test-floors-hosts:
	$(PYTHON) -m venv .venv-floors-hosts
	.venv-floors-hosts/bin/pip install --quiet --constraint tests/floors/hosts.txt --editable ".[all]" "build>=1.2" "hatchling>=1.27"
	.venv-floors-hosts/bin/python -m pytest -m "not slow"

mutation: $(STAMP)
	$(BIN)/pip install --quiet "cosmic-ray>=8.4"
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python -m tests.mutation

release-check: $(STAMP)
	$(BIN)/python -m tests.packaging.release

FUZZ ?= 200
fuzz: $(STAMP)
	TQCORE_FUZZ=$(FUZZ) $(BIN)/python -m pytest tests/fuzz

MINUTES ?= 60
soak: $(STAMP)
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

# The tools come from [dependency-groups], which pip reads itself only since 25.1.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import tomllib; groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; print(*groups["dev"], *groups["docs"], sep="\n")' > $(VENV)/dev.txt
	$(BIN)/python -m pip install --quiet --editable ".[all]" --requirement $(VENV)/dev.txt
	@touch $@
