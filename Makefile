# Everything a developer runs. Each target makes .venv itself when it is missing or older than what it holds.

PYTHON ?=
BIN := .venv/bin
READY := .venv/.ready
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help up test check bench chaos mutants fmt lock env fuzz audit

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  make %-7s %s\n' "$$name" "$$text"; done

up: $(READY) ## A dozen plans moving in this terminal; a server of its own unless TODO_REDIS_URL is set. ARGS="…" are passed on
	$(BIN)/todo-projection up $(ARGS)

test: $(READY) ## The tests; ARGS="-k append" and the like are passed to pytest
	$(BIN)/pytest $(ARGS)

check: $(READY) ## What CI checks besides the tests: format, lint, types, floors, wheel
	@failed=; step() { printf '\n== %s\n' "$$*"; "$$@" || failed="$$failed\n  $$*"; }; \
	step $(BIN)/ruff format --check; \
	step $(BIN)/ruff check --no-cache; \
	step $(BIN)/mypy; \
	step $(BIN)/pyright; \
	step $(BIN)/lint-imports; \
	step $(BIN)/pytest -q --no-header tests/test_wheel.py; \
	if [ -n "$$failed" ]; then printf "\nfailed:$$failed\n" >&2; exit 1; fi

bench: $(READY) ## The benchmark, beside the usual loop in the same run; ARGS="…" are passed on
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

chaos: SEEDS ?= 1 2 3
chaos: STEPS ?= 100
chaos: SERVERS ?= embedded
chaos: $(READY) ## Processes that die, servers that fail, and what is lost; SEEDS="1 2" STEPS=100 SERVERS="redis:7.0 embedded sentinel cluster"
	PYTHONPATH=tests $(BIN)/python -m chaos --seeds "$(SEEDS)" --steps $(STEPS) --servers "$(SERVERS)"

mutants: $(READY) ## Lines broken on purpose, and the tests that must notice; ARGS="--only etag -j 4" are passed on
	PYTHONPATH=tests $(BIN)/python -m mutants $(ARGS)

fuzz: EXAMPLES ?= 5000
fuzz: $(READY) ## Hostile input to every decoder, other examples each time; EXAMPLES=5000 each, and how many were tried
	TODO_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/test_fuzz.py --timeout 3600 --hypothesis-show-statistics -q $(ARGS)

audit: $(READY) ## Known holes in the locked dependencies (needs uv, and the internet)
	uvx pip-audit --require-hashes --disable-pip -r requirements.lock

fmt: $(READY) ## Format, and mend what the linter can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

env: $(READY) ## .env.example from the settings
	PYTHONPATH=tests $(BIN)/python -m example_env > .env.example

COMPILE := uv pip compile -q --universal --generate-hashes --custom-compile-command "make lock"
lock: ## requirements.lock from pyproject.toml, and what the image takes of it (needs uv)
	$(COMPILE) pyproject.toml --all-extras --group dev --group bench --group recipes -o requirements.lock
	$(COMPILE) -c requirements.lock pyproject.toml --extra gateway --extra jwt --extra metrics -o deploy/requirements.lock
	$(COMPILE) -c requirements.lock --group build -o deploy/build.lock

# Every dependency at its locked version and hash, then the project itself, editable. A first Python that is new enough
# is taken from PATH, python3 before numbered ones; PYTHON=… names another.
$(READY): requirements.lock pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
	  for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	    if [ -n "$(PYTHON)" ]; then break; fi; \
	  done; \
	  if [ -n "$$found" ]; then echo "making .venv with $$("$$found" --version)"; \
	  else echo 'make: no Python 3.11 or newer on PATH; install one, or name it: make PYTHON=/path/to/python3' >&2; exit 1; fi; \
	  if command -v uv >/dev/null; then uv venv -q --python "$$("$$found" -c 'import sys; print(sys.executable)')" .venv; \
	  else "$$found" -m venv .venv; fi; \
	fi
	@if command -v uv >/dev/null; then install='uv pip install -q --compile-bytecode --python $(BIN)/python'; \
	else install='$(BIN)/python -m pip install -q --disable-pip-version-check'; fi; \
	echo 'installing requirements.lock'; \
	$$install --require-hashes -r requirements.lock && $$install --no-build-isolation --no-deps -e .
	@touch $@
