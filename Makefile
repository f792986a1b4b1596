# make serve ARGS="PATH.gguf --port 9000"; every target keeps to .venv, and a stamp there says what
# is installed, so that a second run installs nothing unless pyproject.toml has changed.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin

# OpenVINO's runner is for x86-64; elsewhere llama.cpp's is used.
ifneq ($(filter x86_64 amd64,$(shell uname -m)),)
RUN_EXTRAS := [openvino]
DEV_EXTRAS := [openvino,dev]
else
RUN_EXTRAS :=
DEV_EXTRAS := [dev]
endif

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help serve test clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime ## install what is needed and serve: make serve ARGS="PATH.gguf --port 9000"
	$(BIN)/segue serve $(ARGS)

test: $(VENV)/.dev ## lint, types and tests, as in CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest $(ARGS)

clean: ## remove the environment and every cache of the tools
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
	    { echo "There is no $(PYTHON): install Python 3.11 or newer, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Segue needs Python 3.11 or newer and $(PYTHON) is $$($(PYTHON) -V): run make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: pyproject.toml | $(VENV)/.created
	@echo "Installing Segue into $(VENV) ..."
	@$(INSTALL) --editable '.$(RUN_EXTRAS)'
	@touch $@

# After .runtime, never beside it: two pips must not work on one environment.
$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing the development tools into $(VENV) ..."
	@$(INSTALL) --editable '.$(DEV_EXTRAS)'
	@touch $@
