# Everything runs from .venv, which these targets make and keep up to date with pyproject.toml.
.DEFAULT_GOAL := help
PYTHON ?= python3
SPEC ?= examples/digits.tfdeploy
ARGS ?=
BIN := .venv/bin

.PHONY: help run test check-format lint types layers tests bench docs reference format clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

run: .venv/ready ## train SPEC (default: the digits) and print its placement map
	@$(BIN)/tfdeploy compile-and-run $(SPEC) $(ARGS)

test: check-format lint types layers tests ## every check

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

docs: .venv/ready ## build the documentation into build/site, links checked
	$(BIN)/python -m tools.make_reference --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html (to search in it: python3 -m http.server --directory build/site)"

reference: .venv/ready ## write the pages of the documentation that are made of the tool's own tables
	$(BIN)/python -m tools.make_reference

tests: .venv/ready ## the tests alone; PYTEST="-k name" to choose
	$(BIN)/python -m pytest $(PYTEST)

format: .venv/ready ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tfdeploy needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q dsl grammar compiler tfdeploy
	@touch $@

clean: ## remove what the targets made
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
