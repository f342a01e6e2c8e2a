# Virtual environments: .venv has the newest Python of the machine and the newest Django that it can run, as most
# users have; .venv-oldest has the oldest supported versions; .venv-recipes has the packages of the recipes, which the
# package itself never needs. Stamp files in each environment record what is installed:
# .runtime for the package, .tests for the package and the tools of the tests, .bench for these and the other queues that
# the benchmarks compare with, .examples for the web server of the ASGI example, .docs for the documentation tools, .dist
# for the tools that build a release, .recipes for the packages of the recipes.

# PYTHON, if set, is the Python of both environments; otherwise .ci/python finds one.
ARGS ?=
# The number of sequences that `make stateful` runs on each database.
EXAMPLES ?= 300
# The port of the example projects.
PORT ?= 8000
# The tests that run on the oldest Django: the contract of the backend, and smoke tests of the runtime.
# To run all tests: make test OLDEST_TESTS=
OLDEST_TESTS ?= -m "contract or smoke"

OLDEST_DJANGO := Django>=5.2,<5.3
PIP := -m pip install -q --disable-pip-version-check
# Each test process starts its own database servers. Most tests wait for servers and processes, so there may be more
# test processes than processors.
TEST_PROCESSES ?= 4
# What `make check` runs: neither processes of the command, nor storms, nor the state machine.
CHECK_TESTS := $(wildcard tests/test_*.py) $(addprefix tests/,actions arguments checks contract db events jobs store testing) \
	tests/aio/worker tests/recurring --ignore tests/recurring/test_recurring_in_projects.py
TEST_COUNTS := .test-counts/lines
FULL := STEADY_QUEUE_FULL=1 STEADY_QUEUE_TEST_COUNTS=$(TEST_COUNTS)

.DEFAULT_GOAL := help
.PHONY: help check test test-oldest test-newest test-versions test-everywhere test-servers test-recipes dist storm storm-limits storm-control kill-transactional stateful demo example-django example-asgi lint format docs screenshots bench bench-runtime bench-running bench-semantics bench-dashboard clean packages
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: .venv/.tests lint ## Run everything: packages, environments, lint, all tests on the newest Django, some on the oldest
	@rm -rf .test-counts
	$(FULL) .venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup
	@if .venv/bin/python -c 'import django, sys; sys.exit(django.VERSION < (6,))'; then \
		$(MAKE) --no-print-directory test-oldest; \
	elif [ -n "$$CI" ]; then echo "CI requires both environments: install Python 3.12 or newer for the newest Django." >&2; exit 1; \
	else echo "There is no Python 3.12 or newer: the tests ran on the oldest supported Django only."; fi
	@cat $(TEST_COUNTS)

test-oldest: .venv-oldest/.tests ## Run the tests for the oldest supported Django and Python; OLDEST_TESTS= runs them all
	$(if $(OLDEST_TESTS),STEADY_QUEUE_TEST_COUNTS=$(TEST_COUNTS),$(FULL)) .venv-oldest/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup $(OLDEST_TESTS)

test-newest: packages ## Upgrade every dependency in .venv to its newest version, then run all tests on the newest Python
	@python=$$(.ci/python newest) && $(call venv,$$python,.venv)
	@echo "Upgrading everything in .venv"
	@.venv/bin/python $(PIP) --upgrade --upgrade-strategy eager pip -e '.[test,lint]' Django
	@touch .venv/.runtime .venv/.tests
	@.venv/bin/python -m pip list --disable-pip-version-check
	$(FULL) .venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup $(ARGS)

test-versions: .venv/.tests ## Run the contract and the README's first steps on each supported Python and Django
	.venv/bin/python -m tests.release.versions --processes $(TEST_PROCESSES) $(ARGS)

test-everywhere: .venv/.tests ## Run all tests on all databases, including tests that usually run on one; takes half an hour
	$(FULL) .venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup --everywhere

test-servers: .venv/.tests ## Install the wheel with six ASGI servers into an empty environment, and stop each under load
	STEADY_QUEUE_SERVERS_FROM_WHEEL=1 .venv/bin/python -m pytest --databases postgres,sqlite tests/servers $(ARGS)

test-recipes: .venv/.tests .venv-recipes/.recipes ## Run the recipes of the documentation that need Wagtail, Sentry and other packages
	STEADY_QUEUE_RECIPES_PYTHON=$(CURDIR)/.venv-recipes/bin/python .venv/bin/python -m pytest -n 2 --databases sqlite tests/recipes $(ARGS)

check: .venv/.tests lint ## The inner loop: lint, types, layers, unit tests, and the tests that SQLite can run in a minute
	.venv/bin/python -m pytest -q -n $(TEST_PROCESSES) --dist loadgroup --databases sqlite $(CHECK_TESTS)

storm: .venv/.tests ## Kill, stop and freeze workers that run 1,500 tasks, on each database; ARGS="--seed 7 --database sqlite"
	.venv/bin/python -m tests.storm $(ARGS)

kill-transactional: .venv/.tests ## Kill processes at every point of a transactional task, 200 times on each database; ARGS="--runs 50"
	.venv/bin/python -m tests.kills $(ARGS)

storm-limits: .venv/.tests ## Kill eight workers that run tasks with concurrency limits of 1, 2 and 10, on each database
	.venv/bin/python -m tests.storm --limits --seconds 60 --tasks 2400 $(ARGS)

storm-control: .venv/.tests ## Kill workers amid retries, timeouts, cancellations, expiries, unique keys and transactional tasks
	.venv/bin/python -m tests.storm --control --seconds 60 --tasks 1500 $(ARGS)

stateful: .venv/.tests ## Run many random sequences of operations on the store, and compare it with a model; EXAMPLES=300
	STEADY_QUEUE_STATEFUL_EXAMPLES=$(EXAMPLES) .venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup tests/stateful $(ARGS)

demo: .venv/.runtime ## Run a demonstration; needs no database server
	@.venv/bin/python examples/demo.py

example-django: .venv/.runtime ## Start a plain Django project with a web server, a worker and a dashboard; PORT=8000
	@PORT=$(PORT) .venv/bin/python examples/start.py shop

example-asgi: .venv/.examples ## Start an ASGI project whose server runs its tasks; PORT=8000
	@PORT=$(PORT) .venv/bin/python examples/start.py chat

lint: .venv/.tests ## Check style, types and layers
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/.tests ## Fix and format the code with ruff
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

docs: .venv/.docs ## Build the documentation into docs/_build/html; a warning is an error
	.venv/bin/python -m sphinx -W --keep-going -q -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

screenshots: .venv/.tests ## Take the pictures of the dashboard that the README and the documentation show
	.venv/bin/python -m tests.browser.screenshots

dist: .venv/.dist ## Build the wheel and the sdist into dist, check them, and try the wheel in empty environments
	rm -rf dist
	.venv/bin/python -m build --outdir dist
	.venv/bin/python -m twine check --strict dist/*
	STEADY_QUEUE_DIST=dist .venv/bin/python -m pytest -n $(TEST_PROCESSES) --dist loadgroup -m "" tests/release
	@echo "Built, checked and tried:" dist/*.whl dist/*.tar.gz

bench: .venv/.tests ## Measure how fast tasks are enqueued
	.venv/bin/python -m benchmarks.enqueue $(ARGS)

bench-runtime: .venv/.bench ## Measure how fast a worker runs tasks, compared with bare drivers and other queues
	.venv/bin/python -m benchmarks.runtime $(ARGS)

bench-running: .venv/.tests ## Measure how fast the command starts, stops and recovers
	.venv/bin/python -m benchmarks.lifecycle $(ARGS)

bench-semantics: .venv/.tests ## Measure claims, limits and recurring tasks with many rows
	.venv/bin/python -m benchmarks.scale $(ARGS)

bench-dashboard: .venv/.tests ## Measure the pages of the dashboard with many rows
	.venv/bin/python -m benchmarks.dashboard $(ARGS)

clean: ## Remove environments, caches, counts of tests, the built documentation and the databases of the examples
	rm -rf .venv .venv-oldest .venv-recipes .versions .test-counts .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist docs/_build
	rm -f examples/*/*.sqlite3 examples/*/*.sqlite3-*
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

packages:
	@.ci/packages

.venv/.runtime: pyproject.toml
	@python=$$(.ci/python newest) && $(call venv,$$python,.venv)
	@echo "Installing the package into .venv"
	@.venv/bin/python $(PIP) --upgrade -e . Django
	@touch $@

.venv/.examples: .venv/.runtime
	@echo "Installing a web server into .venv"
	@.venv/bin/python $(PIP) 'uvicorn>=0.30'
	@touch $@

.venv/.docs: .venv/.runtime
	@echo "Installing the documentation tools into .venv"
	@.venv/bin/python $(PIP) -e '.[docs]'
	@touch $@

.venv/.dist: .venv/.tests
	@echo "Installing the tools that build a release into .venv"
	@.venv/bin/python $(PIP) -e '.[dist]'
	@touch $@

.venv/.tests: pyproject.toml | packages
	@python=$$(.ci/python newest) && $(call venv,$$python,.venv)
	@echo "Installing the package and the tools of the tests into .venv"
	@.venv/bin/python $(PIP) --upgrade -e '.[test,lint]' Django
	@touch .venv/.runtime $@

.venv/.bench: .venv/.tests
	@echo "Installing the queues that the benchmarks compare with into .venv"
	@.venv/bin/python $(PIP) -e '.[bench]'
	@touch $@

.venv-recipes/.recipes: pyproject.toml
	@python=$$(.ci/python newest) && $(call venv,$$python,.venv-recipes)
	@echo "Installing the package and the packages of the recipes into .venv-recipes"
	@.venv-recipes/bin/python $(PIP) -e '.[recipes,postgres]' Django
	@touch $@

.venv-oldest/.tests: pyproject.toml | packages
	@python=$$(.ci/python oldest) && $(call venv,$$python,.venv-oldest)
	@echo "Installing the package and the tools of the tests into .venv-oldest"
	@.venv-oldest/bin/python $(PIP) -e '.[test]' '$(OLDEST_DJANGO)'
	@touch $@

# $(call venv,python,directory): create the environment, unless there is a complete one with this Python.
define venv
$1 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "$1 must be Python 3.11 or newer; choose another one: make PYTHON=..." >&2; exit 1; }; \
$1 -c 'import ensurepip' 2>/dev/null \
	|| { echo "$1 cannot create virtual environments. Run: sudo apt-get install python3-venv" >&2; exit 1; }; \
test -x $2/bin/pip && test "$$($2/bin/python -V)" = "$$($1 -V)" || $1 -m venv --clear $2
endef
