# One entry point for people and for CI. Targets with a "##" are shown by a bare `make`.

# Each process of a test run imports the same thousand files: Python keeps what it compiled.
export PYTHONDONTWRITEBYTECODE :=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIPELINE_STAMP := $(VENV)/.installed-pipeline
BENCH_STAMP := $(VENV)/.installed-bench
BROWSER_STAMP := $(VENV)/.installed-browser
MUTATION_STAMP := $(VENV)/.installed-mutation
# The build backend warns about every editable installation; nothing can be done about it here.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet --disable-pip-version-check

# An interpreter that is new enough and can make a virtual environment: the first that was built
# with optimizations, or else the first. The versions the drivers ship compiled wheels for come first.
PYTHON_NAMES := python3.11 python3.12 python3.13 python3.14 python3
PYTHON ?= $(shell first=; for path in $$(type -ap $(PYTHON_NAMES)) ~/.local/share/uv/python/*/bin/python3; do \
	"$$path" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	! "$$path" -I benchmarks/interpreter.py || { first="$$path"; break; }; \
	first="$${first:-$$path}"; done; echo "$$first")

# For tests that start clusters, install packages or kill for minutes on end.
UNHURRIED := -o timeout=3600 -o faulthandler_timeout=3700

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Create .venv with Hourhand and the tools to work on it

$(STAMP): pyproject.toml setup.cfg constraints.txt
	@[[ -n "$(PYTHON)" ]] || { echo "Python 3.11 or newer with its venv module is needed: install it (Debian: python3 python3-venv), or name one: make PYTHON=…" >&2; exit 2; }
	@echo "Installing into $(VENV) (a minute the first time) …"
	@[[ -x $(BIN)/python ]] || $(PYTHON) -m venv $(VENV)
	@# Dependency groups are read by pip 25.1 and newer; Python 3.11 brings an older one.
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --constraint constraints.txt --group dev --editable .
	@touch $@

$(PIPELINE_STAMP): $(STAMP)
	@echo "Installing Spark into $(VENV) …"
	@$(PIP) install --constraint constraints.txt --editable '.[delta,spark]'
	@touch $@

.PHONY: venv-pipeline
venv-pipeline: $(PIPELINE_STAMP) ## Add Spark to .venv, for the data pipeline

# Spark is one of what is measured, and two installations at a time would disturb each other.
$(BENCH_STAMP): $(PIPELINE_STAMP)
	@echo "Installing the rivals and what plots and profiles need into $(VENV) …"
	@$(PIP) install --constraint constraints.txt --group bench
	@touch $@

$(BROWSER_STAMP): $(STAMP)
	@echo "Installing what steers a browser into $(VENV) …"
	@$(PIP) install --constraint constraints.txt --group browser
	@touch $@

$(MUTATION_STAMP): $(STAMP)
	@echo "Installing what mutates code into $(VENV) …"
	@$(PIP) install --constraint constraints.txt --group mutation
	@touch $@

.PHONY: bench
bench: need-java need-mvn $(BENCH_STAMP) ## Measure beside rivals and limits: BENCH=full (an hour), BENCH_ONLY=measure,measure
	@$(BIN)/python -m benchmarks run --version $(or $(BENCH),quick) --only "$(BENCH_ONLY)"

.PHONY: bench-page
bench-page: $(BENCH_STAMP) ## Write the last figures and their plots into docs/performance.md
	@$(BIN)/python -m benchmarks page

.PHONY: profile
profile: need-java need-mvn $(BENCH_STAMP) ## Sample the node while it is measured: MEASURE=drain_cluster [WAITING=1]
	@$(BIN)/python -m benchmarks profile --only "$(or $(MEASURE),drain_cluster)" --version $(or $(BENCH),quick) $(if $(WAITING),--waiting)

.PHONY: demo
demo: venv ## See a node run tasks on time, with no server
	@$(BIN)/hourhand demo

.PHONY: demo-flow
demo-flow: venv ## Two tenants, three kinds, a limit, a priority and batches: what was promised and what was seen
	@$(BIN)/python -m examples.demo_flow

.PHONY: demo-processes
demo-processes: venv ## Tasks that compute, hang, leak and crash in processes, beside tasks that behave
	@$(BIN)/python -m examples.demo_processes

.PHONY: demo-life
demo-life: venv ## A reminder expires, another is replaced; a charge snoozes and returns what it charged; an order is cancelled
	@$(BIN)/python -m examples.demo_life

.PHONY: demo-night
demo-night: venv ## A service is away, 2,000 tasks fail, a node dies; the documented commands bring all of it back
	@$(BIN)/python -m examples.demo_night

.PHONY: demo-cluster
demo-cluster: need-java need-mvn venv ## The same on real Kafka and Cassandra, with nodes that die and one limit for all of them (two minutes)
	@$(BIN)/python -m examples.demo_cluster

.PHONY: demo-fleet
demo-fleet: need-java need-mvn venv ## Tasks within transactions of a PostgreSQL, whose mover dies, for two node processes, one of which dies
	@$(BIN)/python -m examples.demo_fleet

.PHONY: demo-kafka-only
demo-kafka-only: need-java need-mvn venv ## Messages that wait in Kafka alone, on three nodes, one of which dies
	@$(BIN)/python -m examples.demo_kafka_only

.PHONY: demo-relay
demo-relay: need-java need-mvn venv ## Messages delayed by headers on real servers, with nodes that die
	@$(BIN)/python -m examples.demo_doors.relay

.PHONY: demo-timers
demo-timers: need-java need-mvn venv ## Timers that call back over HTTP on real servers, with nodes that die
	@$(BIN)/python -m examples.demo_doors.timers

.PHONY: demo-dashboard
demo-dashboard: need-java need-mvn need-chromium $(BROWSER_STAMP) ## The dashboard over a cluster with blocked keys and nodes that die; pictures of it [STAY=1]
	@$(BIN)/python -m examples.demo_dashboard $(if $(STAY),--stay)

.PHONY: pipeline-demo
pipeline-demo: need-java need-mvn venv-pipeline ## The whole pipeline on TASKS=2000000 beside a node, from a load to 48 partitions
	@$(BIN)/python -m examples.pipeline_demo --tasks $(or $(TASKS),2000000)

.PHONY: up
up: need-java need-mvn venv ## Start Kafka and Cassandra on this machine and wait until they answer
	@$(BIN)/python -m tests.servers up

.PHONY: down
down: venv ## Stop exactly the servers that `make up` started
	@$(BIN)/python -m tests.servers down

# Markers of what only `make test-all` runs, through targets of its own; docs/testing.md says why.
LEFT_OUT := long or cluster or containers or newcomer or browser

# Two processes more than cores: many tests wait for a server.
PROCESSES ?= $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 2)')

# What CI runs side by side: each folder of tests belongs to one part.
PART_unit := tests/property tests/tidy tests/unit
PART_simulation := tests/box tests/judge tests/promises tests/simulation tests/specification
PART_servers := tests/chaos tests/conformance tests/integration tests/security tests/two_versions
PART_programs := tests/containers tests/browser tests/crash tests/deploy tests/documents tests/examples tests/fuzz tests/mutation tests/newcomer tests/power_cut tests/programs tests/soak
PART_pipeline := tests/pipeline
PARTS := unit simulation servers programs pipeline

.PHONY: test
test: need-java need-mvn venv-pipeline jars ## The tests of every kind, real servers included (fifteen minutes) [PART=unit|simulation|servers|programs|pipeline]
	@[[ -z "$(PART)" || " $(PARTS) " == *" $(PART) "* ]] || { echo "PART=$(PART) is not a part of the tests: choose one of $(PARTS)" >&2; exit 2; }
	@# In CI a test that fails is tried once more and counted as "rerun"; docs/testing.md says why.
	@$(BIN)/python -m pytest -n $(PROCESSES) -m "not ($(LEFT_OUT))" $(if $(CI),--reruns 1) $(if $(PART),$(PART_$(PART)))

.PHONY: jars
jars: need-java need-mvn venv ## Fetch Kafka and Cassandra once, for the tests
	@$(BIN)/python -m tests.servers fetch

.PHONY: test-long
test-long: need-java need-mvn venv-pipeline jars ## The tests that are too long for `make test`
	@$(BIN)/python -m pytest -n $(PROCESSES) -m "long and not (cluster or containers or newcomer or browser)" $(UNHURRIED)

# A night's work. Each runs even where one before it failed.
NIGHT := test test-long test-cluster test-cassandra-old test-browser test-install test-tutorial test-containers compose-demo \
	sim sim-fleet sim-mutants crash power-cut fuzz chaos \
	demo demo-flow demo-processes demo-life demo-night demo-cluster demo-fleet demo-kafka-only demo-relay demo-timers demo-dashboard pipeline-demo bench

.PHONY: test-all
test-all: need-java need-mvn venv ## Everything: what `make test` runs and all that is too long for it (a night)
	@failed=; for target in $(NIGHT); do \
		echo "== make $$target"; started=$$SECONDS; \
		$(MAKE) $$target || failed+=" $$target"; \
		echo "== make $$target took $$((SECONDS - started)) s"; \
	done; [[ -z "$$failed" ]] || { echo "These failed:$$failed" >&2; exit 1; }

.PHONY: test-cluster
test-cluster: need-java need-mvn venv-pipeline ## The tests that need three brokers or Cassandra nodes, or minutes (a quarter of an hour)
	@$(BIN)/python -m pytest -m cluster $(UNHURRIED)

.PHONY: test-cassandra-old
test-cassandra-old: need-java need-mvn venv ## The stores' contract on Cassandra 4.1 (two minutes)
	@TEST_CASSANDRA_VERSION=4.1.9 $(BIN)/python -m pytest $(UNHURRIED) tests/conformance/test_cassandra_stores.py tests/conformance/test_cassandra_bulk.py

.PHONY: test-browser
test-browser: need-java need-mvn need-chromium $(BROWSER_STAMP) ## The dashboard in a real Chromium: every screen, every action, a node that dies
	@$(BIN)/python -m pytest -m browser $(UNHURRIED)

.PHONY: images
images: venv ## Fetch or make the container images, and docker/.env [BASE_IMAGE=debian@sha256:…]
	@$(BIN)/python -m tests.servers.images

.PHONY: compose-demo
compose-demo: images ## 10,000 tasks on three nodes in containers, one of which is killed
	@$(BIN)/python -m examples.demo_containers --tasks $(or $(TASKS),10000)

.PHONY: test-containers
test-containers: images ## The tests on Kafka and Cassandra once more, over containers, and docker/ itself
	@$(BIN)/python -m pytest --servers containers -m "not cluster and not newcomer" $(UNHURRIED)

.PHONY: test-unit
test-unit: venv ## The tests of single source files, which need nothing, on all cores
	@$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not long" tests/unit tests/property

.PHONY: test-install
test-install: venv ## The wheel from an index, on each Python there is [PYTHONS="python3.14"]
	@$(if $(PYTHONS),PYTHONS="$(PYTHONS)") $(BIN)/python -m pytest $(UNHURRIED) tests/newcomer/test_install.py

.PHONY: test-tutorial
test-tutorial: need-java need-mvn venv ## The commands of README and tutorial, line by line, from a fresh clone
	@$(BIN)/python -m pytest $(UNHURRIED) tests/newcomer/test_pages.py

.PHONY: sim
sim: venv ## Simulate clusters from seeds: SEEDS=200, FIRST=0, or replay one: SEED=7 [SCENARIO=name]
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200) --first $(or $(FIRST),0)) $(if $(SCENARIO),--scenario $(SCENARIO))

.PHONY: sim-fleet
sim-fleet: venv ## Simulate NODES=100 with PARTITIONS=1024: a rolling restart, a lost rack, a storm of rebalances [SEED=0]
	@$(BIN)/python -m tests.simulation.fleet --nodes $(or $(NODES),100) --partitions $(or $(PARTITIONS),1024) --seed $(or $(SEED),0)

.PHONY: sim-mutants
sim-mutants: venv ## Break the code on purpose, one line at a time, and see who notices [PART=2/8]
	@$(BIN)/python -m tests.simulation.mutants $(if $(PART),--part $(PART)) $(if $(ONLY),--only "$(ONLY)") $(if $(OUTPUT),--output $(OUTPUT))

.PHONY: mutation-sweep
mutation-sweep: $(MUTATION_STAMP) ## Change a FILE=scheduler/node/node.py a little, again and again, and see its tests notice [TESTS=… SAMPLE=200 MUTATION_SEED=0]
	@[[ -n "$(FILE)" ]] || { echo "Name the files to mutate: make mutation-sweep FILE=scheduler/node/node.py" >&2; exit 2; }
	@$(BIN)/python -m tests.mutation $(FILE) --sample $(or $(SAMPLE),0) --seed $(or $(MUTATION_SEED),0) $(if $(TESTS),--tests $(TESTS))

.PHONY: chaos
chaos: need-java need-mvn venv ## Kill nodes and servers, fail links, clocks and disks for CHAOS_MINUTES=10 and recount [CHAOS_SEED=7 CHAOS_DOORS=0|1 CHAOS_FAULTS=all|processes|around]
	@$(BIN)/python -m tests.chaos

.PHONY: crash
crash: venv ## Kill a node KILLS=200 times over embedded folders, then recount what it promised
	@CRASH_KILLS=$(or $(KILLS),200) $(BIN)/python -m pytest -s $(UNHURRIED) tests/crash

.PHONY: soak
soak: venv ## Keep a node at work for HOURS=8 and see whether memory, files or lateness grow [RATE=100 EVERY_S=300 SERVERS=1]
	@$(BIN)/python -m tests.soak --hours $(or $(HOURS),8) --rate $(or $(RATE),100) --every-s $(or $(EVERY_S),300) $(if $(SERVERS),--servers)

.PHONY: power-cut
power-cut: venv ## Cut the power under an embedded node CUTS=2000 times, and look for what it acknowledged [SEED=0]
	@$(BIN)/python -m tests.power_cut --cuts $(or $(CUTS),2000) --seed $(or $(SEED),0)

.PHONY: fuzz
fuzz: venv ## Give every door hostile input: INPUTS=150000, FUZZ_SEED=0
	@$(BIN)/python -m tests.fuzz --inputs $(or $(INPUTS),150000) --seed $(or $(FUZZ_SEED),0)

.PHONY: check
check: venv ## After each edit: format, lint, types, imports and the tests nearest to what changed [BASE=main]
	@$(BIN)/python -m tests.check --base "$(or $(BASE),HEAD)"

.PHONY: lint
lint: venv ## Style, types and import contracts alone
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config setup.cfg

.PHONY: format
format: venv ## Let ruff rewrite what it can
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format --quiet

.PHONY: docs
docs: venv ## Write the generated pages of docs/ anew, and build the site: build/site/index.html
	@$(BIN)/python -m tests.tidy.generated_docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site

.PHONY: changelog
changelog: venv ## Show what a release would add to CHANGELOG.md, from the files in changes/
	@$(BIN)/towncrier build --draft --version "next"

.PHONY: release-notes
release-notes: venv ## Join the files in changes/ into CHANGELOG.md: VERSION=0.2.0
	@[[ -n "$(VERSION)" ]] || { echo "Name the version: make release-notes VERSION=0.2.0" >&2; exit 2; }
	@$(BIN)/towncrier build --yes --version "$(VERSION)"

.PHONY: render
render: venv ## Render the Helm chart into deploy/helm/rendered; needs helm
	@$(BIN)/python -m tests.deploy.manifests

.PHONY: lock
lock: venv ## Choose the newest versions within the bounds of pyproject.toml anew, for .venv
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --extra all --group bench --group browser --group mutation --group tools --custom-compile-command "make lock" --output-file constraints.txt pyproject.toml
	@# The image's own, with hashes and without the tools; at the same versions.
	@for name in build-requirements requirements; do \
		$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --constraint constraints.txt \
			--custom-compile-command "make lock" --output-file docker/node/$$name.txt \
			$$([[ $$name == requirements ]] && echo "--extra kafka --extra cassandra --extra http --extra otel --extra crypto --extra claims pyproject.toml" || echo docker/node/$$name.in); done

.PHONY: clean
clean: ## Remove .venv and everything built; data and server downloads stay
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

.PHONY: need-java
need-java:
	@version="$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' || true)"; \
	[[ "$${version:-0}" -ge 17 ]] || { echo "Java 17 or newer is needed to run Kafka and Cassandra: install it (Debian: default-jre-headless); make test-unit does without" >&2; exit 2; }

.PHONY: need-mvn
need-mvn:
	@command -v mvn >/dev/null || { echo "Maven is needed to fetch Kafka and Cassandra: install it (Debian: maven); make test-unit does without" >&2; exit 2; }

.PHONY: need-chromium
need-chromium:
	@for name in "$${CHROMIUM:-}" chromium chromium-browser google-chrome; do \
		[[ -n "$$name" ]] && command -v "$$name" >/dev/null && exit 0; done; \
	{ echo "Chromium is needed to look at the dashboard: install it (Debian: chromium), or name one: CHROMIUM=…" >&2; exit 2; }
