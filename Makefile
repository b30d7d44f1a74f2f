# Two commands do everything: `make demo` shows the main job, `make test` passes the tests.
# python3 (3.11 or newer), make and a Python package index are all they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SOURCES := webhook certs deploy examples tests
JUNIT ?=
# Tests start hundreds of processes, each of which would compile the whole project.
unexport PYTHONDONTWRITEBYTECODE
PROCESSES ?= auto
# A test that hangs ends its process after ten minutes, with the stack of every thread; storms take longer than that.
IN_PARALLEL = -n $(PROCESSES) --dist loadfile -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true --max-worker-restart=0

BENCHMARKS := engine memory pods_memory direct through_apiserver quota audit

.PHONY: demo test lint types contracts unit coverage e2e untraced properties fuzz growth soak bench bench-check counts house docs sbom lock clean

demo: $(READY) ## Send the manifests of examples/ to the real server and show what became of them
	@$(BIN)/python examples/demo.py

test: lint types contracts unit ## Everything that needs no API server; `make e2e` runs the rest

lint: $(READY)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

types: $(READY)
	$(BIN)/mypy

contracts: $(READY)
	$(BIN)/lint-imports

unit: $(READY) ## Every test without an API server, with a quarter as many examples of each property as in CI
	PROPERTY_TIMES=$${PROPERTY_TIMES:-0.25} $(BIN)/python -m pytest -q $(IN_PARALLEL) -m "not e2e" $(JUNIT)

coverage: $(READY) ## What the tests leave out that need no API server; property tests go through the same lines, and would take twice as long
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest -q $(IN_PARALLEL) -m "not (hypothesis or untraced or e2e)" --cov --cov-report=
	$(BIN)/coverage report --fail-under=92

e2e: PROCESSES = 4
e2e: $(READY) ## The tests with an API server, which wait more than they work
	$(BIN)/python -m pytest -q $(IN_PARALLEL) -m e2e

untraced: $(READY) ## The tests without an API server that `make coverage` leaves out
	$(BIN)/python -m pytest -q $(IN_PARALLEL) -m "(hypothesis or untraced) and not e2e"

properties: $(READY) ## Property tests with ten times as many examples; after a change to what they are about
	PROPERTY_TIMES=10 $(BIN)/python -m pytest -q $(IN_PARALLEL) -o faulthandler_timeout=3600 -m hypothesis

fuzz: $(READY) ## Reviews drawn by chance: what holds of every answer; FUZZ_REVIEWS and FUZZ_SEED ask for others
	$(BIN)/python -m pytest -q tests/lab/fuzz

growth: $(READY) ## Pods with long lists, whose decisions may take no more than their length; GROWTH_MINUTES has all pairs
	$(BIN)/python -m pytest -q tests/lab/growth

soak: $(READY) ## Storms, and whole installations: minutes of load and faults against real parts
	$(BIN)/python -m pytest -q tests/lab/soak

bench: $(READY) ## Measure; docs/performance.md says what with
	@set -e; for name in $(BENCHMARKS); do echo; echo "# $$name"; $(BIN)/python -m tests.lab.benchmarks.$$name; done

bench-check: export BENCH_SHORT = 1
bench-check: bench ## Every benchmark for a second and of the least size: whether it measures what it means to

counts: $(READY) ## Write down the work of the engine as it is now; say in the commit why it grew
	PYTHONHASHSEED=0 $(BIN)/python -m tests.work > tests/work/counts.new
	mv tests/work/counts.new tests/work/counts.json

house: $(READY) ## Write down the mass of the house as it is now, if it fell; say in the commit why it grew
	$(BIN)/python -m tests.test_house

docs: $(READY) ## Generate what is generated; needs helm
	$(BIN)/gpu-policy policy docs > docs/rules.md
	$(BIN)/gpu-policy policy schema > docs/policy-schema.json
	$(BIN)/gpu-policy policy schema --kind GPUSharedQuotas > docs/quotas-schema.json
	$(BIN)/gpu-policy policy schema --kind GPUCudaTables > docs/cuda-tables-schema.json
	$(BIN)/gpu-policy policy schema --kind GPUPolicyExceptions > docs/exceptions-schema.json
	$(BIN)/gpu-policy policy schema --kind GPUPolicyTest > docs/policy-test-schema.json
	$(BIN)/gpu-policy cuda docs > docs/cuda.md
	$(BIN)/python -m tests.counted
	$(BIN)/python -m deploy.generate

sbom: ## List what a release consists of, in CycloneDX, from the lock
	$(PYTHON) -m venv dist/sbom-venv
	dist/sbom-venv/bin/pip install --quiet cyclonedx-bom==7.5.0
	dist/sbom-venv/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --short-PURLs --output-reproducible -o dist/gpu-policy-webhook.cdx.json
	rm -r dist/sbom-venv

lock: ## Resolve the dependencies anew
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --no-strip-extras --no-emit-index-url --no-emit-find-links --generate-hashes --allow-unsafe -o requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --no-strip-extras --no-emit-index-url --no-emit-find-links --generate-hashes --allow-unsafe --extra dev -o requirements-dev.lock pyproject.toml
	$(BIN)/pip-compile --quiet --no-strip-extras --no-emit-index-url --no-emit-find-links --generate-hashes --allow-unsafe --only-build-deps --build-deps-for=wheel -o requirements-build.lock pyproject.toml

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "python3 is " + sys.version.split()[0] + "; 3.11 or newer is needed: make PYTHON=...")'
	@echo "Python packages are installed into $(VENV) once; this takes about a minute." >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install $$(test -t 1 && echo --progress-bar=on || echo --quiet) --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
