# Everything runs from .venv, which these targets make and keep up to date with pyproject.toml.
.DEFAULT_GOAL := help
PYTHON ?= python3
SPEC ?= examples/digits.tfdeploy
ARGS ?=
BIN := .venv/bin
# Files of tests run side by side, whole, so that what a file makes once is made once. There are three processes more
# than cores, because some tests wait for processes that they have started.
SIDE_BY_SIDE := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
PYTEST ?= $(SIDE_BY_SIDE)
# Tests that never start TensorFlow, but for those that are marked as slow.
QUICK := tests/dsl tests/grammar tests/test_packages.py tests/cli/test_light.py tests/cli/test_check.py tests/cli/test_init.py \
  tests/cli/test_show.py tests/cli/test_startup.py

.PHONY: help run test full quick check-format lint types layers tests coverage bench docs page pictures reference mutants package editors lock format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: .venv/ready ## train SPEC (default: the digits) and print its placement map
	@$(BIN)/tfdeploy compile-and-run $(SPEC) $(ARGS)

test: check-format lint layers ## every check; types are checked while the tests are imported, by one process
	@$(MAKE) --no-print-directory -j 2 types tests

check-format: .venv/ready
	$(BIN)/ruff format --check .

lint: .venv/ready
	$(BIN)/ruff check .

types: .venv/ready
	$(BIN)/mypy

layers: .venv/ready
	$(BIN)/lint-imports

bench: .venv/ready ## measure against others and write docs/benchmarks.md (20 minutes); ARGS="--model lenet" for a part
	$(BIN)/python -m benchmarks $(ARGS)
	$(BIN)/python -m benchmarks.editor

docs: .venv/ready ## build the documentation into build/site, links checked
	$(BIN)/python -m tools.make_reference --check
	$(BIN)/python -m tools.make_editors --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html (to search in it: python3 -m http.server --directory build/site)"

page: tools/page/node_modules/.package-lock.json ## lint and type-check the scripts of the placement page, for which npm is needed
	npm --prefix tools/page run --silent check

tools/page/node_modules/.package-lock.json: tools/page/package.json tools/page/package-lock.json
	npm --prefix tools/page ci --silent --no-audit --no-fund
	@touch $@

pictures: .venv/ready ## make the pictures of the documentation again, for which Chromium is needed
	$(BIN)/python -m tools.make_pictures

reference: .venv/ready ## write the pages of the documentation and the files of editors that are made of the tool's own tables
	$(BIN)/python -m tools.make_reference
	$(BIN)/python -m tools.make_editors

tests: .venv/ready compiled ## the tests alone, in several processes; PYTEST="-k name" to choose
	$(BIN)/python -m pytest --keep-compiled $(PYTEST)

.PHONY: compiled
compiled: .venv/ready # what has changed; else each process that a test starts would compile it for itself
	@$(BIN)/python -m compileall -q dsl grammar compiler tfdeploy benchmarks tools

quick: check-format lint types layers ## the checks without TensorFlow, within a minute
	$(BIN)/python -m pytest --keep-compiled $(SIDE_BY_SIDE) -m "not slow and not full" $(QUICK)

full: .venv/ready ## the cases that `make test` leaves out, since it has others of their kind
	$(BIN)/python -m pytest --keep-compiled $(SIDE_BY_SIDE) -m full

coverage: .venv/ready ## the tests, and which lines none of them runs: build/coverage/index.html
	$(BIN)/python -m pytest --cov --cov-report=html:build/coverage --cov-report=term:skip-covered $(PYTEST)

mutants: .venv/ready ## put small faults into the code and count how many the tests see; ARGS="--count 200 --seed 1"
	$(BIN)/python -m tools.mutation $(ARGS)

package: .venv/ready ## build the packages, install each into a fresh environment, and try it there
	$(BIN)/python -m tools.check_packages

editors: editors/vscode/node_modules/.package-lock.json ## test the colours of the Visual Studio Code extension and pack it, for which npm is needed
	cd editors/vscode && npm test && npm run package

editors/vscode/node_modules/.package-lock.json: editors/vscode/package.json editors/vscode/package-lock.json
	cd editors/vscode && npm ci --no-audit --no-fund
	@touch $@

lock: .venv/ready ## renew requirements-dev.lock, which .venv is made from, after a change of pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header --quiet --output-file requirements-dev.lock

format: .venv/ready ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The lock has every package, with its version. Without --no-deps, pip looks for dependencies with an extra anew, finds a
# release that came out after the lock was made, and refuses it because the lock has no hash for it.
.venv/ready: pyproject.toml requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tfdeploy needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/python -m compileall -q dsl grammar compiler tfdeploy
	@touch $@

clean: ## remove what the targets made
	rm -rf .venv build tools/page/node_modules editors/vscode/node_modules editors/vscode/*.vsix *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
