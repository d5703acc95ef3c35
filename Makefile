# Everything runs from a .venv in this folder, made from requirements.lock at first use.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One more than two cores: tests of clusters and faults wait for about a fifth of their time.
PROCESSES ?= 3
SHELL := /bin/bash

# The tiers that 'make test' leaves out; all of them are in tests/tiers.py.
QUICK := not (cluster or servers or faults or extras or long)
PYTEST = $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --durations=15 -rs $(if $(TIER_COUNTS),--tier-counts=$(TIER_COUNTS)) $(if $(WITHIN),--within=$(WITHIN))

# 'make check' runs beside pytest, what it says is shown after pytest's, and both have to succeed.
TIMED = TIMEFORMAT='make $@: %lR of wall time, CPU time %lU user and %lS system'; mkdir -p build; time {
CHECKED = $(MAKE) --no-print-directory check > build/check.log 2>&1 & check=$$!;
BOTH = tests=$$?; wait $$check; checked=$$?; echo "== make check"; cat build/check.log; [ $$tests = 0 ] && [ $$checked = 0 ]; }

NUMERIC := tests/geometry tests/methods tests/readouts tests/tasks tests/encoders tests/training
AVX512 := $(if $(shell grep -m1 -o avx512bw /proc/cpuinfo),OPENBLAS_CORETYPE=SkylakeX)
CORES := OPENBLAS_CORETYPE=Haswell $(AVX512) ATEN_CPU_CAPABILITY=default,MKL_CBWR=COMPATIBLE

# What in benchmarks/ is no benchmark by itself: what others import, what records curves and tables,
# and what wants a GPU.
NO_BENCH := measure curves surfaces simulate gpu_kernel record_surface rung_judgement quick_tables gpu

.PHONY: help setup tune test test-rest tier test-all test-numbers soak check format dashboard bench examples screenshots docs lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup: $(READY)  ## create .venv from the lock files

$(READY): requirements-torch.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("sentune needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=python3.11 ...")'
	@echo "Setting up .venv (about two minutes, once) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements-torch.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

tune: $(READY)  ## tune GumbelCSE on the package's own corpus and encoder
	@$(BIN)/python jobs/tune_gumbel.py

test: $(READY)  ## run lint, type checks, import contracts, the quick tests and the smoke tests (5 to 10 minutes)
	@$(TIMED) $(CHECKED) $(PYTEST) -m '$(QUICK)'; $(BOTH)

test-rest: $(READY)  ## run the tests that 'make test' leaves out: clusters, servers, faults at small counts, extras, long tests
	@$(TIMED) $(PYTEST) -m 'not ($(QUICK))'; }

tier: $(READY)  ## run the tests of one tier: make tier TIER=cluster
	@$(TIMED) $(PYTEST) -m '$(or $(TIER),$(error name it: make tier TIER=cluster))'; }

test-all: $(READY)  ## run all tests, faults at small counts (35 to 60 minutes)
	@$(TIMED) $(CHECKED) $(PYTEST); $(BOTH)

test-numbers: $(READY)  ## run the numeric tests with the arithmetic of other x86 cores that this one supports
	@failed=; for core in $(CORES); do echo "== $$core"; env $${core//,/ } $(BIN)/python -m pytest -n $(PROCESSES) -m '$(QUICK)' $(NUMERIC) || failed="$$failed $$core"; done; \
	[ -z "$$failed" ] || { echo "tests failed with:$$failed"; exit 1; }

soak: $(READY)  ## run the fault tests at full counts: ten times twenty kills, fifty stopped groups, also on PostgreSQL and S3 (hours)
	@for seed in 0 1 2 3 4 5 6 7 8 9; do echo "== kills, seed $$seed"; SENTUNE_SOAK=1 SENTUNE_KILL_SEED=$$seed $(BIN)/python -m pytest tests/faults/test_driver.py || exit 1; done
	@SENTUNE_SOAK=1 $(BIN)/python -m pytest tests/faults tests/networks tests/sharing tests/homes tests/end_to_end/test_closed_form_groups.py tests/training/test_read_once.py --ignore=tests/faults/test_driver.py

check: $(READY)  ## check lint, formatting, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@PYTHONPATH=platform $(BIN)/lint-imports

format: $(READY)  ## format the code and sort imports
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

dashboard: $(READY)  ## show the studies of 'make tune' in MLflow, on 127.0.0.1
	@$(BIN)/sentune dashboard

bench: $(READY)  ## run the benchmarks, each against a peer (more than two hours)
	@missed=; for file in $(filter-out $(NO_BENCH:%=benchmarks/%.py),$(wildcard benchmarks/*.py)); do echo; echo "== $$file"; PYTHONPATH=. $(BIN)/python $$file || missed="$$missed $$file"; done; \
	[ -z "$$missed" ] || { echo; echo "a limit was missed:$$missed"; exit 1; }

examples: $(READY)  ## execute the notebooks in examples/ in place
	@$(BIN)/python examples/execute.py

screenshots: $(READY)  ## draw the pictures of README and gallery from three studies; needs Chromium (8 minutes)
	@PYTHONPATH=. $(BIN)/python examples/screenshots.py

docs: $(READY)  ## build the documentation site in build/site
	@mkdir -p build
	@$(BIN)/typer sentune.cli utils docs --name sentune --title Commands --output docs/reference/cli.md > build/cli.log
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

lock: ## update requirements.lock from pyproject.toml with the newest versions and their hashes
	@rm -rf build/lock && $(PYTHON) -m venv build/lock build/tools
	@build/tools/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-torch.lock
	@build/lock/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]'
	@build/lock/bin/python -m pip freeze --all | grep -vE '^(-e|#|(pip|wheel|sentune|torch)( |=))' > build/lock/pins.in
	@build/tools/bin/pip-compile --quiet --generate-hashes --no-header --no-annotate --allow-unsafe --strip-extras --output-file build/lock/all.lock build/lock/pins.in
	@{ echo "# Exact versions and hashes of everything that the set-up installs beside torch; remade by 'make lock'."; \
	   awk 'FNR==NR {split($$1, pin, "=="); gsub("_", "-", pin[1]); known[tolower(pin[1])]; next} /^[A-Za-z0-9]/ {split($$1, pin, "=="); kept = pin[1] in known} kept && !/^ *#/ && NF' build/lock/pins.in build/lock/all.lock; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock && rm -rf build/lock build/tools

clean:  ## remove .venv and caches, but keep studies
	@rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
