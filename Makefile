# Each target does its own set-up in .venv. `make PYTHON=python3.12 …` makes it with another Python.

PYTHON ?= python3
HYPOTHESIS_PROFILE ?= ci
SECONDS ?= 600
KILL_EVERY ?= 60
SEED ?= 20261120
ROUNDS ?= 10000
PROMPT ?= List the Python files here and say what each is for

VENV := .venv
BIN := $(VENV)/bin
# Three stamps: `make run` needs what a user installs, `make test` what the tests import, everything else the linters as well.
BASE := $(VENV)/.installed-base
SERVED := $(VENV)/.installed-served
TEST := $(VENV)/.installed-test
DEV := $(VENV)/.installed-dev

# Images of containers set it, and then each command that a test starts compiles all of the package anew.
unexport PYTHONDONTWRITEBYTECODE

# pytest, and one more try, alone, for up to ten tests that failed beside seventeen thousand others.
# One worker more than there are processors: a tenth of the time a test waits for a process, a browser or a disk.
CORES := $(shell getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell echo $$(($(CORES) + 1)))
PYTEST = $(BIN)/python -m scripts.run_tests -n $(WORKERS) -rs
# Properties among the unit tests have ten examples each in `make test` and in CI, and all of them in `make property`.
ALL := --unit-examples=1000000
COVER := --cov --cov-report=
# Holds steps to a time: with the profile `nightly` by each of its inputs.
TIMED := property_tests/runtime/test_nothing_holds_the_loop.py
# Strikes at each step of a life: CI has each life and each mode, `make nightly` all pairs of them.
STRUCK := property_tests/runtime/test_struck_at_every_step.py
PURE := agentrail/frozen.py,agentrail/otp/*,agentrail/core/*/*,agentrail/plugins/*,agentrail/typed/*,agentrail/config/*,agentrail/commands/*,agentrail/protocols/*,agentrail/evals/dataset.py,agentrail/evals/report.py,agentrail/evals/scorers.py,agentrail/evals/statistics.py,agentrail/evals/trace.py
# To count all lines takes as long as the tests themselves. CI counts those of the pure rooms alone, in the tests that reach them,
# and holds PURE_FLOOR; FLOOR, of the whole package, is held by `make coverage`, and so by `make check` at home and `make nightly`.
COVER_PURE := $(addprefix --cov=agentrail.,frozen otp core plugins typed config commands protocols evals) --cov-report= --counted=pure
# The floors only rise.
PURE_FLOOR := 100
FLOOR := 85

.PHONY: help run demo test property nightly check floors pure-floor bench bench-quick bench-peers soak soak-gateway soak-large soak-readers crash crash-nodes simulate nginx lint lint-js pictures vendor-console lint-doors lint-trio lint-types lint-public-types lint-style lint-layers lint-news lint-prose lint-repository lint-sources lint-commits hooks docs docs-check docs-site docs-serve coverage slow-tests tests-and-properties coverage-of-spec mutants planted ast-mutants compiled-test compiled-build test-minimum test-pythons examples release longest install litellm peers peers-all clients console-tools clean soak-console
.DEFAULT_GOAL := help

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(BASE)  ## one agent cycle in this checkout; offline unless a key is set
	$(BIN)/agentrail run "$(PROMPT)"

demo: $(SERVED)  ## agents at work on the built-in demo model, and the address of their console; Ctrl-C ends it
	$(BIN)/agentrail serve --demo

# Measured: with one worker more than processors, a fifth of the time no test computed.
test: WORKERS := $(shell echo $$(($(CORES) + 2)))
test: $(TEST) peers  ## unit, scenario and conformance tests, and the code in the pages; ten minutes on two cores
	HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) $(PYTEST) $(if $(COUNTED),$(COVER_PURE) --folded=all --skipped-to=$(COUNTED)/skipped) -m 'not check'

# `ci` has the same examples in every run, so luck does not decide whether a change lands. Here they are new each time.
DRAWN := $(if $(filter file,$(origin HYPOTHESIS_PROFILE)),dev,$(HYPOTHESIS_PROFILE))

property: $(DEV)  ## the Hypothesis suites, with new examples in each run; HYPOTHESIS_PROFILE=dev, ci or nightly
	HYPOTHESIS_PROFILE=$(DRAWN) $(PYTEST) property_tests
	HYPOTHESIS_PROFILE=$(DRAWN) $(PYTEST) $(ALL) -m hypothesis tests

# What is allowed of the mutants runs under bash, some thirty thousand lines.
# CI leaves out what `tests/thinned.py` marks; all of that runs here, and lines are counted in the whole suite.
nightly: $(DEV) peers  ## a million mutants of command lines, of which none that a policy allows may do harm under bash; then random bugs, new examples of each property, the compiled build, the examples, the benchmarks, and the tests on each Python found and on the oldest dependencies; SEED=20261120
	HYPOTHESIS_PROFILE=nightly PERMISSION_MUTANTS=1000000 PERMISSION_SEED=$(SEED) $(BIN)/python -m pytest -rs -m check tests/plugins/test_permissions_oracle.py
	@$(MAKE) --no-print-directory ast-mutants
	HYPOTHESIS_PROFILE=nightly $(PYTEST) $(COVER) --folded=all -m 'not check'
	@$(MAKE) --no-print-directory floors
	HYPOTHESIS_PROFILE=nightly $(PYTEST) --folded=all -m check tests
	@$(MAKE) --no-print-directory property
	for world in $(WORLDS); do $(BIN)/python -m agentrail simulate --world $$world --jobs 2 --seeds $$(date +%Y%m%d)00-$$(date +%Y%m%d)99 --save build || exit 1; done
	HYPOTHESIS_PROFILE=nightly $(PYTEST) $(TIMED) $(STRUCK)
	@$(MAKE) --no-print-directory compiled-test
	@$(MAKE) --no-print-directory examples
	@$(MAKE) --no-print-directory bench-quick
	@$(MAKE) --no-print-directory test-pythons
	@$(MAKE) --no-print-directory test-minimum

test-pythons:  ## the tests of `make test` on each supported Python of this machine; PYTHONS='3.12 3.13'
	@bash scripts/test_pythons.sh

check: $(DEV)  ## everything that must hold before a commit
	@$(MAKE) $(TWO_AT_A_TIME) $(LINTS) docs-site
	@$(MAKE) --no-print-directory coverage BESIDE='simulate $(BESIDE)'

bench: $(DEV)  ## the benchmarks, each beside a bare loop
	$(BIN)/python -m benchmarks

# Each workload holds its run to its result, so one that no longer does its work ends with an error.
bench-quick: $(DEV)  ## whether the benchmarks still do their work; the figures mean nothing
	$(BIN)/python -m benchmarks --quick

bench-peers: $(DEV)  ## the frameworks that one would take instead, beside us in one run; installs them into .bench-peers/
	$(BIN)/python -m benchmarks.peers

soak: $(DEV)  ## ten minutes of sessions that live and die badly, and as long of the gateway's and of readers'; SECONDS=600 SEED=20261120; fails when anything grows
	$(BIN)/python -m benchmarks.soak --seconds $(SECONDS) --seed $(SEED)
	$(MAKE) --no-print-directory soak-gateway
	$(MAKE) --no-print-directory soak-readers

soak-readers: $(DEV)  ## ten minutes of 200 sessions with a store, and readers in many threads at each chance of a switch: alive and flat
	$(BIN)/python -m benchmarks.readers_soak --seconds $(SECONDS) --seed $(SEED)

soak-gateway: $(DEV)  ## the same for a server with a thousand sessions and readers, which is killed every minute: nothing is lost, no reader has a gap; KILL_EVERY=60
	$(BIN)/python -m benchmarks.gateway_soak --seconds $(SECONDS) --kill-every $(KILL_EVERY) --seed $(SEED)

soak-large: $(DEV)  ## an hour of a server with 100,000 stored sessions, 10,000 in memory and 1,000 readers: flat; SECONDS=3600
	$(BIN)/python -m benchmarks.large_soak --seconds $(SECONDS) --seed $(SEED)

soak-console: $(DEV)  ## ten minutes of a monkey with a seed in the console of the demo: no exception, a flat heap, each dialogue closes; SECONDS=600 SEED=20261120
	$(BIN)/python -m tests.console.monkey --seconds $(SECONDS) --seed $(SEED)

crash: $(TEST)  ## a process that writes journals is killed, ten thousand times, and nothing it was told is lost; ROUNDS=10000
	$(BIN)/python -m scripts.crash --rounds $(ROUNDS) --seed $(SEED)
	$(BIN)/python -m scripts.crash --sessions --rounds $$(($(ROUNDS) / 10)) --delay 0.3 --seed $(SEED)
	$(BIN)/python -m scripts.crash --rounds $$(($(ROUNDS) / 5)) --busy 4 --seed $(SEED)
	$(BIN)/python -m scripts.crash --sessions --rounds $$(($(ROUNDS) / 20)) --delay 0.3 --slow --changed --busy 4 --seed $(SEED)

# Each life is cut after some minutes of virtual time; `make nightly` has other seeds each day, and all worlds.
WORLDS := single cluster desk tree office protocols storm moves drain fleet

simulate: $(DEV)  ## a minute of simulated lives from fixed seeds: one node on a disk, and a cluster, each with faults; stops at a broken promise
	$(BIN)/python -m agentrail simulate --world single --jobs 2 --seeds 0-39 --save build --shrink 0
	$(BIN)/python -m agentrail simulate --world cluster --jobs 2 --seeds 0-14 --save build --shrink 0

crash-nodes: $(DEV) nginx  ## three servers on PostgreSQL behind nginx for ten minutes, with a fault every five seconds: nothing is lost, twice or left behind; SECONDS=600 SEED=20261120
	$(BIN)/python -m scripts.crash_nodes --seconds $(SECONDS) --seed $(SEED)

nginx:
	@bash scripts/install_postgres.sh
	@bash scripts/install_nginx.sh

# Two at a time, because each has one thread; what takes longest begins first. Each says what it has to say in one piece, where
# make knows how (not that of macOS).
IN_PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

TWO_AT_A_TIME := --no-print-directory --jobs=2 --keep-going $(IN_PIECES)
LINTS := lint-doors lint-public-types lint-sources lint-style lint-layers lint-news lint-commits lint-js

lint: $(DEV)  ## style, types (ours, and as users see them), layers, what a seed has to give, Trio habits, news fragments, prose, links and lists of pages
	@$(MAKE) $(TWO_AT_A_TIME) $(LINTS)

# Checks the types too: what hangs on types needs trees that mypy has read without its cache. `make lint-types` is quicker, with it.
lint-doors: $(DEV)
	$(BIN)/python -m scripts.doors

# RUF029, in preview only: `async` that never waits.
lint-trio: $(DEV)
	$(BIN)/ruff check --preview --select RUF029 agentrail
	$(BIN)/python -m scripts.trio_habits

lint-types: $(DEV)  ## types alone, quicker at the second time
	$(BIN)/mypy

lint-public-types: $(DEV)
	$(BIN)/python -m scripts.verify_types

# What lint-trio, lint-prose, lint-repository, docs-check and longest do one by one: they read the same modules.
lint-sources: $(DEV)
	$(BIN)/ruff check --preview --select RUF029 agentrail
	$(BIN)/python -m scripts.lint_sources

lint-style: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-layers: $(DEV)
	$(BIN)/lint-imports

lint-news: $(DEV)
	$(BIN)/towncrier build --draft --version next > /dev/null

lint-prose: $(DEV)
	$(BIN)/python -m scripts.prose

lint-repository: $(DEV)
	$(BIN)/python -m scripts.repository_rules

# Subjects of commits that origin/main does not have yet; none where git has no such branch.
lint-commits: $(DEV)
	$(BIN)/python -m scripts.prose --commits origin/main..HEAD

hooks:  ## judge the subject of each commit of this checkout
	git config core.hooksPath scripts/hooks

lint-js: $(DEV) console-tools  ## format, habits and types of the console, and the tests of its pure modules
	$(BIN)/python -m scripts.lint_console

console-tools:
	@bash scripts/install_console_tools.sh

pictures: $(DEV)  ## take the pictures of README and docs from a real run of the demo, light and dark; needs chromium
	$(BIN)/python -m scripts.pictures

vendor-console: $(DEV)  ## write what the console has of others anew, from npm, at the versions and digests of its vendor.json
	$(BIN)/python -m scripts.vendor_console

docs: $(DEV)  ## write the generated pages anew
	$(BIN)/python scripts/generate_docs.py

# Half of it is reading docstrings. MkDocs warns of its next version, which we do not use.
docs-site: $(DEV)  ## build the site into build/site: strictly, with each link looked at, and nothing fetched from elsewhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m scripts.docsite.check build/site

docs-serve: $(DEV)  ## show the site at http://127.0.0.1:8000 while you write
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve --livereload --watch agentrail --watch README.md --watch scripts/docsite

docs-check: $(DEV)  # the generated pages are those that `make docs` would write
	$(if $(wildcard scripts/generate_docs.py),$(BIN)/python scripts/generate_docs.py --check)

# Lines are counted in what `make test` runs, and nowhere else: counting makes what computes three times as long, and a line
# that a property meets by luck has no test.
# COUNTED names the folder in which scripts/as_a_stranger.sh left the lines of the pure rooms that it counted, and the tests that were
# skipped there: then only those tests are left of the first run, and of the floors that of the pure rooms.
coverage: $(DEV) peers  ## all tests with branches counted, then those that take long, and the properties
ifdef COUNTED
	test -s $(COUNTED)/skipped
	cp $(COUNTED)/coverage .coverage
endif
	@$(MAKE) $(TWO_AT_A_TIME) slow-tests tests-and-properties $(BESIDE)
	@$(MAKE) --no-print-directory $(if $(COUNTED),pure-floor,floors)

# Two at a time: what takes long waits for browsers, servers and processes nearly as long as it computes, and properties only compute.
slow-tests: $(DEV)
	HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) $(PYTEST) -o cache_dir=.pytest_cache/slow --folded=all -m check tests

tests-and-properties: WORKERS := $(CORES)
tests-and-properties: $(DEV)
ifdef COUNTED
	HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) $(PYTEST) $(COVER_PURE) --cov-append --folded=all @$(COUNTED)/skipped
else
	HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) $(PYTEST) $(COVER) --folded=all -m 'not check'
endif
	HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) $(PYTEST) property_tests

pure-floor: $(DEV)
	$(BIN)/coverage report --include='$(PURE)' --fail-under=$(PURE_FLOOR)

floors: pure-floor
	$(BIN)/coverage report --fail-under=$(FLOOR)

coverage-of-spec: $(DEV)  ## which numbered scenarios and guarantees have a test
	$(BIN)/python -m scripts.scenario_coverage

mutants: $(DEV)  ## the planted bugs of tests/mutants, each of which its test has to notice
	$(BIN)/python -m scripts.run_mutants

planted: $(DEV)  ## distributed bugs, and how many seconds of a core the lives of a world take to show each; STRATEGIES=portfolio SECONDS=60 SEEDS=1 BUGS='part of a name'
	$(BIN)/python -m scripts.planted --strategies $(or $(STRATEGIES),portfolio) --seconds $(if $(filter file,$(origin SECONDS)),60,$(SECONDS)) --seeds $(or $(SEEDS),1) --json build/planted.json $(BUGS)

ast-mutants: $(DEV)  ## random bugs in seven rooms, and how many the tests of their lines notice; COUNT=200 SEED=20261120
	$(BIN)/python -m scripts.ast_mutants --count $(or $(COUNT),200) --seed $(SEED)

compiled-test:  ## the suite, the properties and the mutants on the compiled build, in an environment of its own
	@PYTHON=$(PYTHON) HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE) bash scripts/compiled_test.sh

compiled-build:  # and nothing else: it has one thread, so what else has one can run beside it
	@PYTHON=$(PYTHON) bash scripts/compiled_test.sh build

test-minimum:  ## the tests on the oldest versions of dependencies that we allow
	@PYTHON=$(PYTHON) bash scripts/test_minimum.sh

examples:  ## the packages of docs/examples, on the wheel in an environment of their own; EXAMPLES='support_bot tides'
	@PYTHON=$(PYTHON) bash scripts/run_examples.sh $(EXAMPLES)

release:  ## build the wheel and the sdist, check them, run both in an empty environment, and print the steps to publish
	@PYTHON=$(PYTHON) bash scripts/release.sh

longest: $(DEV)  ## the longest functions, files and classes, and the figures of scripts/bars.toml; fails above 70 and 1,000 lines, and where a figure is worse than its bar
	$(BIN)/python -m scripts.longest

install: $(DEV) peers  ## all of the set-up and nothing else

litellm: $(DEV) peers  ## the wire tests through the LiteLLM proxy, which is installed for them
	@PYTHON=$(PYTHON) bash scripts/install_litellm.sh
	$(BIN)/python -m pytest -rs tests/providers/test_litellm.py

peers:  # programs that we did not write, for the tests of wires
	@bash scripts/install_peers.sh
	@bash scripts/install_console_tools.sh

peers-all: peers  ## all that the peers of the protocols judge, which takes longer than CI gives them
	AGENTRAIL_ALL_PEERS=1 $(BIN)/python -m pytest -q -n 0 -p no:randomly tests/mcp/test_server_conformance.py

clients:  ## what judges the interface over HTTP from outside: Schemathesis, and a generator of clients
	@PYTHON=$(PYTHON) bash scripts/install_clients.sh

# Keeps .hypothesis: the examples that once failed are tried first for ever after.
clean:  ## remove what the other targets made
	rm -rf $(VENV) .venv-* .bench-peers .peers .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage .coverage.* build dist
	find agentrail tests property_tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "agentrail needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version): try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What is imported is compiled then, on all cores; pip would compile everything, on one. Of the package tests import everything,
# and three workers that import the same module at the same time all compile it.
COMPILE := $(BIN)/python -m compileall -q -j 0 agentrail
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

$(BASE): pyproject.toml | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

$(SERVED): pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[gateway,prices]"
	@touch $(BASE) $@

$(TEST): pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[http2,prices,test]"
	$(COMPILE)
	@touch $(BASE) $(SERVED) $@

$(DEV): pyproject.toml | $(BIN)/python
	$(INSTALL) -e ".[dev]"
	$(COMPILE)
	@touch $(BASE) $(SERVED) $(TEST) $@
