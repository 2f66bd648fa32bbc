# `make` alone lists the targets. Everything is installed into .venv, or where VENV says, with the
# pins of pins/; outside this folder only Jupyter keeps its own settings, and uv its cache.

PORT  ?= 8888
JOBS  ?= 2

# Recipes say "$$NAME" and not $(NAME): a path may have spaces, apostrophes and dollars in it.
export VENV PYTHON TORCH WHEELS PORT JOBS MINUTES
# Hundreds of processes would each compile again what they import.
unexport PYTHONDONTWRITEBYTECODE

IN := ./scripts/in-environment
# With PYTHON=... the GPU validation runs on that interpreter as it is, without installing.
VALIDATION := $(if $(PYTHON),"$$PYTHON",$(IN) python)

.DEFAULT_GOAL := help
.PHONY: help install install-test wheelhouse lab hub hub-end kit check-room doctor test test-deep lint unit katas chapters \
        test-hub store-chapters site validate-gpu release-check clean

help:
	@echo 'make lab            set up, check this machine, open JupyterLab on the chapters'
	@echo '                    (PORT=8888 is the first port to try, PYTHON=python3.12 the Python to use,'
	@echo '                    VENV=/srv/debubble an environment that several checkouts share,'
	@echo '                    TORCH=cpu or cuda, WHEELS=folder a folder from make wheelhouse)'
	@echo 'make test           set up, then all that CI runs: lint, unit, katas, chapters'
	@echo 'make test-deep      all tests; make test runs a sample of them'
	@echo 'make doctor         describe this machine in a dozen lines'
	@echo 'make hub            JupyterHub on this host, for the learners of names.txt (workshop/hub)'
	@echo 'make kit            slides, usual mistakes and papers of a workshop, into build/kit'
	@echo 'make check-room     check in one minute that this machine is ready for a workshop'
	@echo 'make wheelhouse     download what make lab needs into wheels/, for hosts without network'
	@echo 'make store-chapters run the chapters on sim and store their outputs'
	@echo 'make site           build the workbook as pages in build/site: no kernel, no network needed'
	@echo 'make screenshots    take a picture of each kind of view in both themes, for assets/screenshots'
	@echo 'make validate-gpu   on a GPU: tests, katas, chapters and benchmarks, the oldest results first,'
	@echo '                    recorded in assets/ (MINUTES=9 stops after 9 minutes; PYTHON=python3 runs'
	@echo '                    it on that Python as it is, nothing is installed)'
	@echo 'make release-check  fail if a part of a recorded validation failed or has no result'
	@echo 'make clean          remove .venv and the caches; your katas stay'

install:
	@./scripts/make-environment

install-test:
	@./scripts/make-environment --with test

wheelhouse:
	@./scripts/make-environment --wheelhouse

# The terminals of JupyterLab find `pytest` and `debubble`. What it opens are the reader's copies, in
# my/chapters or below DEBUBBLE_WORKSPACE: running a chapter changes nothing that git knows.
lab: install
	@$(IN) debubble doctor
	@$(IN) ./scripts/open-lab

# Learners' servers and the packages that they share lie in HUB.
hub hub-end: export HUB := $(or $(HUB),/srv/debubble)
hub hub-end: export VENV := $(or $(VENV),$(HUB)/environment)
hub hub-end: export PORT := $(if $(filter file,$(origin PORT)),8000,$(PORT))
hub:
	@./scripts/make-environment --with hub --base-only
	@PYTHONPATH="$$PWD" exec "$$VENV/bin/python" -m workshop.hub

kit: install
	@$(IN) python -m workshop.kit build/kit

check-room: install
	@$(IN) python -m workshop.kit.room

hub-end:
	@test -x "$$VENV/bin/python" || { echo "No hub was set up in $$HUB: HUB=... names its folder"; exit 1; }
	@PYTHONPATH="$$PWD" "$$VENV/bin/python" -m workshop.hub end

doctor: install
	@$(IN) debubble doctor

# Later parts still run when an earlier one fails: one run shows everything that is wrong.
test: install-test
	@$(MAKE) --no-print-directory --keep-going lint unit katas chapters
	@echo 'All of make test passed.'

lint: install-test
	$(IN) ruff check .
	$(IN) ruff format --check .
	$(IN) lint-imports
	$(IN) mypy -n "$$JOBS"
	$(IN) python -m tests.setup.import_graph

# The workers share the cores: threads of their own would only stand in each other's way. Each worker
# runs its tests file by file, for the sake of shared fixtures, until one of them has none left.
unit: install-test
	OMP_NUM_THREADS=1 $(IN) python -m pytest tests --device sim -n "$$JOBS" --timeout=300 --durations=20 \
	    --dist worksteal

katas: install-test
	$(IN) debubble check --device sim $(if $(CI),--pristine)

chapters: install-test
	DEBUBBLE_DEVICE=sim $(IN) python -m pytest -p no:python --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --timeout=300 --dist loadscope -n "$$JOBS" tests/chapters

# What `make test` runs a slice of.
test-deep: install-test
	OMP_NUM_THREADS=1 $(IN) python -m pytest tests -m deep --deep --device sim -n "$$JOBS" \
	    --dist worksteal --timeout=600
	$(IN) debubble check --device sim --every-attempt

# A real hub with twelve learners, as root and with Node.js, in a folder that learners can reach: of its
# 2.5 GB the environment stays for the next time.
test-hub: install-test
	DEBUBBLE_TEST_HUB="$${DEBUBBLE_TEST_HUB:-/srv/debubble-test}" $(IN) python -m pytest tests/hub/test_parts.py \
	    tests/hub/test_classroom.py tests/hub/test_sessions.py tests/hub/test_attacks.py --deep --device sim -s

release-check: install-test
	@$(IN) python -m tests.validation --check

store-chapters: install-test
	DEBUBBLE_DEVICE=sim $(IN) python scripts/store_chapters.py chapters/*.ipynb

site: install-test
	$(IN) python -m scripts.site build/site

screenshots: site
	$(IN) python -m scripts.take_screenshots build/site

validate-gpu: $(if $(PYTHON),,install-test)
	$(VALIDATION) -m tests.validation --device cuda $(if $(MINUTES),--minutes "$$MINUTES")

clean:
	rm -rf .venv build ./*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache
