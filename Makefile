# `make` alone lists what there is. Everything is installed into .venv, with the pins of
# constraints.txt; outside this folder only Jupyter keeps its own settings.

VENV  := .venv
PORT  ?= 8888
JOBS  ?= 2
STAMP := $(VENV)/.installed

# With PYTHON=... the GPU validation runs on that interpreter as it is, without installing.
VALIDATION_PYTHON := $(if $(PYTHON),$(PYTHON),$(abspath $(VENV))/bin/python)

.DEFAULT_GOAL := help
.PHONY: help install lab doctor test test-deep lint unit katas chapters validated store-chapters \
        site validate-gpu release-check clean

help:
	@echo 'make lab            set up, check this machine, open JupyterLab on the chapters'
	@echo '                    (PORT=8888 is the first port to try, PYTHON=python3.12 the Python to use)'
	@echo 'make test           set up, then all that CI runs: lint, unit, katas, chapters'
	@echo 'make test-deep      all of the tests of which make test takes a sample'
	@echo 'make doctor         this machine in a dozen lines'
	@echo 'make store-chapters run the chapters on sim and keep what they show'
	@echo 'make site           the workbook as pages in build/site that need no kernel and no network'
	@echo 'make validate-gpu   on a GPU: whatever no longer holds of its tests, katas, chapters and'
	@echo '                    benchmarks, recorded in assets/ (PYTHON=python3 runs it on that Python'
	@echo '                    as it is, nothing is installed)'
	@echo 'make validated      what of the recorded validations still holds for this source'
	@echo 'make release-check  the same, and an error if any of it does not'
	@echo 'make clean          remove .venv and the caches; your katas stay'

$(STAMP): pyproject.toml constraints.txt
	@PYTHON='$(PYTHON)' ./scripts/make-environment '$(VENV)'
	@touch '$@'

install: $(STAMP)

# The terminals of JupyterLab find `pytest` and `debubble`. What it opens are the reader's copies, in
# my/chapters or below DEBUBBLE_WORKSPACE: running a chapter changes nothing that git knows.
lab: $(STAMP)
	@'$(VENV)/bin/debubble' doctor
	@chapters="$$('$(VENV)/bin/debubble' chapters)" || exit; \
	case "$$chapters" in '$(CURDIR)'/*) root='$(CURDIR)';; *) root=/;; esac; \
	PATH='$(CURDIR)/$(VENV)/bin':"$$PATH" '$(VENV)/bin/python' -m jupyterlab \
	    --ServerApp.ip=127.0.0.1 --ServerApp.port='$(PORT)' \
	    --ServerApp.root_dir="$$root" --FileContentsManager.preferred_dir="$$chapters" \
	    --ServerApp.terminado_settings='{"shell_command": ["bash", "--rcfile", "$(CURDIR)/scripts/terminal"]}' \
	    $$(test "$$(id -u)" -ne 0 || echo --allow-root)

doctor: $(STAMP)
	@'$(VENV)/bin/debubble' doctor

# Later parts still run when an earlier one fails: one run shows everything that is wrong.
test: $(STAMP)
	@$(MAKE) --no-print-directory --keep-going lint unit katas chapters validated

lint: $(STAMP)
	'$(VENV)/bin/ruff' check .
	'$(VENV)/bin/ruff' format --check .
	'$(VENV)/bin/lint-imports'
	'$(VENV)/bin/mypy'
	'$(VENV)/bin/python' -m tests.setup.import_graph

# The workers share the cores: threads of their own would only stand in each other's way. Tests of a
# file share what its fixtures made, and so a worker; tests/conftest.py has the longest files first.
unit: $(STAMP)
	OMP_NUM_THREADS=1 '$(VENV)/bin/python' -m pytest tests --device sim -n '$(JOBS)' --timeout=300 \
	    --dist loadfile --no-loadscope-reorder

katas: $(STAMP)
	'$(VENV)/bin/debubble' check --device sim $(if $(CI),--pristine)

chapters: $(STAMP)
	DEBUBBLE_DEVICE=sim '$(VENV)/bin/python' -m pytest -p no:python --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --timeout=300 --dist loadscope -n '$(JOBS)' tests/chapters

# Whoever has no GPU can't renew a part that is stale: that fails a release, and not the tests.
validated: $(STAMP)
	@'$(VENV)/bin/python' -m tests.validation --state
	@'$(VENV)/bin/python' -m tests.validation.deep --state

# What `make test` runs a slice of; the result is kept in assets/deep.json.
test-deep: $(STAMP)
	OMP_NUM_THREADS=1 '$(VENV)/bin/python' -m tests.validation.deep --processes '$(JOBS)'

release-check: $(STAMP)
	@'$(VENV)/bin/python' -m tests.validation --check

store-chapters: $(STAMP)
	DEBUBBLE_DEVICE=sim '$(VENV)/bin/python' scripts/store_chapters.py chapters/*.ipynb

site: $(STAMP)
	'$(VENV)/bin/python' -m scripts.site build/site

validate-gpu: $(if $(PYTHON),,$(STAMP))
	'$(VALIDATION_PYTHON)' -m tests.validation --device cuda

clean:
	rm -rf '$(VENV)' build ./*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
