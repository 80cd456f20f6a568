# Every verb sets up what it needs; the second time it starts its work at once.
# The first that is new enough and can make environments (Debian has ensurepip in a package of its own).
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$python -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 11)' 2>/dev/null && echo $$python && break; done)
NO_PYTHON := echo "Python 3.11 or newer with venv is needed: make setup PYTHON=/path/to/python3" >&2; exit 2
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUNS ?= runs
# What `make test` may not leave out: `core` is everything without extras, `all` also installs the extras first.
REQUIRE ?=
SOURCES := node harness chaos pipeline
EXTRAS := connect docker lake load spark s3 ui
COMPILED_SUITES := $(addprefix tests/unit/,archive client cluster media protocol runtime service standby) tests/simulation tests/system
SEEDS ?= 1..100
CANARY ?=
WORKERS ?= 2
SEED ?= 1
COUNT ?= 20
AERON ?= 1.51.0

.PHONY: help setup setup-dev setup-all aeron-jar aeron-member uplot demo check test nightly sim track-record mutants load-test ui-test aeron-test spark-test docker-test compiled compiled-test compiled-wheel bench wheel workflows docs clean

help: ## Show the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## Make the environment that demo and the command line need
setup-dev: $(VENV)/.dev ## Add what check, test and bench need

# Plain paths cost an interpreter 10 ms less than the import hook that setuptools installs; the suites start thousands.
$(VENV)/.runtime: pyproject.toml requirements/build.txt requirements/runtime.txt
	@$(PIP) --version >/dev/null 2>&1 || [ -e $@ ] || ! $(BIN)/python -c '' >/dev/null 2>&1 || { echo "$(VENV) has no pip: remove it, or run $(BIN)/python -m ensurepip" >&2; exit 2; }
	@$(PIP) --version >/dev/null 2>&1 || $(or $(PYTHON),false) -m venv --clear $(VENV) || { $(NO_PYTHON); }
	@$(PIP) install --quiet --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@printf '%s\n' $(SOURCES:%="$(CURDIR)/%") >"$$(ls $(VENV)/lib/python*/site-packages/__editable__.upheaval-*.pth)"
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt requirements/package.txt requirements/browser.txt
	@$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	@$(PIP) install --quiet --require-hashes -r requirements/package.txt
	@$(PIP) install --quiet --require-hashes --no-deps -r requirements/browser.txt
	@touch $@

setup-all: $(VENV)/.dev $(EXTRAS:%=$(VENV)/.%) ## Add the extras: docker, lake, load, spark, ui; and what their tests need: connect, s3

$(EXTRAS:%=$(VENV)/.%): $(VENV)/.%: requirements/%.txt | $(VENV)/.dev
	@$(PIP) install --quiet --require-hashes -r $<
	@touch $@

aeron-jar: $(VENV)/.runtime ## Fetch Aeron's jars by Maven, unless they are there
	@$(BIN)/python tools/aeron_jar.py --all >/dev/null

aeron-member: $(VENV)/.runtime ## Compile the member program for Aeron, and say its class path: AERON=1.51.0
	@$(BIN)/python tools/aeron_jar.py --member --version $(AERON)

BROWSER := harness/upheaval/report/browser
uplot: ## Fetch the library of the page's charts again by npm, and compare it with its pinned digests
	@cd $$(mktemp -d) && tar -xzf $$(npm pack --silent uplot@1.6.32) \
		&& cp package/dist/uPlot.iife.min.js package/dist/uPlot.min.css $(CURDIR)/$(BROWSER) \
		&& cp package/LICENSE $(CURDIR)/$(BROWSER)/uPlot.LICENSE
	@cd $(BROWSER) && sha256sum --check uPlot-1.6.32.sha256

demo: $(VENV)/.runtime ## Start a cluster, break it, heal it, judge it
	@$(BIN)/upheaval demo

check: $(VENV)/.dev ## Lint, formatting, types, import contracts, metadata, workflows and Dockerfiles
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports
	@$(BIN)/validate-pyproject pyproject.toml >/dev/null
	@$(BIN)/yamllint .github action.yml .pre-commit-config.yaml
	@$(BIN)/zizmor --offline --quiet --no-progress .
	@$(BIN)/hadolint images/*/Dockerfile

workflows: ## Check the workflows with actionlint (needs Go; shellcheck too, where it is there)
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.7

test: $(if $(filter all,$(REQUIRE)),setup-all aeron-jar,$(VENV)/.dev) ## The checks and everything that this machine can run, and what it could not
	@$(BIN)/python tools/run_tests.py --require "$(REQUIRE)"

nightly: setup-all aeron-jar ## Everything, with the long forms of the tests
	@$(BIN)/python tools/run_tests.py --require all --nightly

sim: $(VENV)/.runtime ## A campaign on the simulated runtime: SEEDS=1..100 WORKERS=2 SEARCH=chains CANARY=--canary OUT=folder
	@$(BIN)/upheaval campaign --seeds $(SEEDS) --workers $(WORKERS) $(if $(SEARCH),--search $(SEARCH)) $(CANARY) $(if $(OUT),--out $(OUT))

track-record: $(VENV)/.runtime ## Run known bugs of Aeron on versions with and without them; writes $(RUNS)/track-record.md
	@mkdir -p $(RUNS) && $(BIN)/upheaval track-record --out $(RUNS)/track-record.md

mutants: $(VENV)/.dev ## Mutation testing of the node: SEED=1 COUNT=20; goes on with $(RUNS)/mutants.jsonl
	@$(BIN)/python tools/mutants.py --seed $(SEED) --count $(COUNT) --out $(RUNS)/mutants.jsonl

load-test: $(VENV)/.load ## The suite that needs locust
	@$(BIN)/python tools/run_tests.py --only load --require all

ui-test: $(VENV)/.ui $(VENV)/.load ## The suite of the pages in a browser; needs chromium and locust
	@$(BIN)/python tools/run_tests.py --only ui --require all

aeron-test: $(VENV)/.dev aeron-jar ## The suite that needs Java and Aeron's jars: its tools on our files, its members
	@$(BIN)/python tools/run_tests.py --only aeron --require all

spark-test: $(VENV)/.lake $(VENV)/.spark $(VENV)/.connect $(VENV)/.s3 ## The suite that needs PySpark, Java and DuckDB
	@$(BIN)/python tools/run_tests.py --only pipeline --require all

docker-test: setup-all ## The suite that needs a Docker engine
	@$(BIN)/python tools/run_tests.py --only docker --require all

compiled: $(VENV)/.dev ## Compile what is hot (C compiler, minutes); the node and the simulation then run compiled
	@$(BIN)/python tools/build_compiled.py

# What the sources and the compiled modules must have in common: the suites of what is compiled, digests, and seeds.
compiled-test: compiled ## The suites of compiled modules, on these, and SEEDS=1..100 against the sources
	@UPHEAVAL_PURE=0 $(BIN)/python -m pytest -q -p no:cacheprovider -m "not nightly and not pure" $(COMPILED_SUITES)
	@$(BIN)/python -m bench.forms --only seeds --seeds $(SEEDS)

compiled-wheel: $(VENV)/.dev ## A wheel with the compiled modules, for this Python and platform, in dist
	@$(BIN)/python tools/build_compiled.py --wheel dist

wheel: $(VENV)/.dev aeron-jar ## The wheel and the sdist, with the classes of Aeron's members, in dist
	@$(BIN)/python tools/member_classes.py
	@$(BIN)/python -m build --no-isolation --outdir dist .

bench: $(VENV)/.dev ## Measure beside Aeron, etcd and PySyncObj, where they are; writes bench/results.json
	@$(BIN)/python bench/run.py
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python bench/hot_spots.py

# In an environment of its own: Sphinx and what uploads packages want different versions of docutils.
docs: $(VENV)/docs/.done ## Build the site into docs/_build/html; a warning is an error
	@$(VENV)/docs/bin/sphinx-build -q -W --keep-going -b html docs docs/_build/html

$(VENV)/docs/.done: requirements/docs.txt
	@$(or $(PYTHON),false) -m venv --clear $(VENV)/docs || { $(NO_PYTHON); }
	@$(VENV)/docs/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r $<
	@touch $@

clean: ## Remove environment, compiled modules, caches and runs
	@rm -rf $(VENV) node/upheaval_node/_compiled build dist docs/_build member-classes $(RUNS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
