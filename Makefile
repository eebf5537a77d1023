# make demo       set up, then tell the whole story on generated subjects
# make test       set up, then run the tests
# make test-slow  set up, then run the tests that take minutes
# make check      set up, then lint, type-check and check what imports what
# make lock       resolve the pins anew from pyproject.toml (needs uv)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow check lock clean
.DEFAULT_GOAL := demo

demo: $(READY)
	$(BIN)/tff-esn demo

test: $(READY)
	$(BIN)/python -m pytest

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The stamp is newer than what it was made from, so nothing is installed twice.
# --no-deps: pip cannot override TensorFlow Federated's pin of a jaxlib that is gone.
$(READY): requirements.txt pyproject.toml
	@python=; for candidate in $(PYTHON) python3.11 python3.10 python3.9 python3 python; do \
	  if $$candidate -c 'import sys, ensurepip, venv; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null; \
	  then python=$$candidate; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "tff-esn needs Python 3.9, 3.10 or 3.11 with venv (TensorFlow Federated has no wheels for others): install python3.11 and python3.11-venv" >&2; \
	  exit 2; fi; \
	echo "Installing into $(VENV) with $$($$python --version) ..." && \
	$$python -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.txt && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . && \
	touch $(READY)

# Resolved for the oldest Python, so that one list fits all three.
lock:
	uv pip compile --quiet --python-version 3.9 --extra dev --no-annotate --no-header pyproject.toml -o requirements.txt
	{ sed '/- pip:/q' environment.yml; sed 's/^/      - /' requirements.txt; } > environment.tmp && mv environment.tmp environment.yml

clean:
	rm -rf $(VENV) build dist *.egg-info
