# Set-up, checks, tests and the main jobs. `make` alone says what there is.
#
# Needed beforehand: make, Python 3.11 (with venv) and Java 17. All else goes into .venv.

PYTHON ?= python3.11
BIN := .venv/bin
# The tool that makes the lock; it runs from a folder of its own, for nothing else needs it.
UV_VERSION := 0.13.8

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Set in many images; each process would compile Photon's modules anew, which takes 1 s of a core.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup prerequisites minio dynoxide dynamodb-local kafka dbt check weight docs test none-skipped test-fast test-all test-long screenshots soak soak-outages demo dev example bench bench-quick bench-live bench-backfill bench-tables bench-scaling bench-verification bench-feed bench-landing bench-s3 bench-killed-shift bench-returning bench-month flink figures wheel lock clean

help:
	@echo "make setup      .venv with photon and all it needs, and Delta's JARs"
	@echo "make minio      build MinIO, a store that speaks S3, for the tests and for lakes on it; needs Go"
	@echo "make dynoxide   fetch dynoxide, a server for a registry's endpoint; what needs it does it: tests, figures, demo"
	@echo "make dynamodb-local  fetch DynamoDB Local, a second server for the registry; make test does it"
	@echo "make kafka      fetch a broker of Kafka, for the tests of landing; make test-all does it"
	@echo "make dbt        dbt with DuckDB, in an environment of its own, for examples/dbt and its test"
	@echo "make check      ruff, mypy, the import contracts and make weight"
	@echo "make weight     lines of code by room and words of the documents, against the budgets in weight.toml"
	@echo "make docs       the documents as a site, into site/"
	@echo "make test       the tests: every rule once, 20 minutes on two cores"
	@echo "make test-all   the rest: processes and datacenters that die, browsers, PostgreSQL; half an hour"
	@echo "make test-long  more of them, by hand: many seeds, long histories, variants of the demo"
	@echo "make screenshots  the pictures of Dagster's UI and the live page in the documents"
	@echo "make soak       100,000 seeds of whole datacenters (some eight hours of two cores), 20,000 of ledgers (an hour), and soak-outages"
	@echo "make soak-outages  200 kills with -9 of real processes: datacenters, endpoints, commands (a quarter of an hour), then faults of three datacenters in turn"
	@echo "make test-fast  the tests without Spark and servers"
	@echo "make demo       all of it: live logs, Dagster, a shift that is killed, verification; LAKE=s3: logs and tables on a MinIO"
	@echo "make dev        Dagster's UI and the live page on live traffic, until Ctrl-C"
	@echo "make example    join a small generated pair of logs"
	@echo "make bench      Photon's join beside those of Spark and Flink: half an hour at most; make bench-quick: 5 minutes"
	@echo "make bench-live  measure the live delay"
	@echo "make bench-backfill  measure how fast rows are made again"
	@echo "make bench-tables  measure what tables cost after 200,000 commits, compacted and not"
	@echo "make bench-scaling  measure how a join grows with cores; needs Linux and root"
	@echo "make bench-verification  measure how much memory a verification of a day takes, beside one of an hour"
	@echo "make bench-feed  measure deliveries to PostgreSQL, beside Spark's Delta source"
	@echo "make bench-landing  measure the delay of landing and its catch-up, and a join of topics beside Spark's"
	@echo "make bench-s3   count requests to S3 and their price, of a commit and of an idle hour"
	@echo "make bench-month  100,000 log files that come and go in a month of event time: memory, state, look, batch"
	@echo "make bench-returning     measure a restart after a silence in which others passed a batch over"
	@echo "make bench-killed-shift  measure how soon a killed shift joins again under Dagster, and live delay beside reports"
	@echo "make flink      Flink for make bench, in an environment of its own"
	@echo "make figures    the paper's figures, and live delay beside Spark and Flink, into docs/figures.md (some 25 minutes)"
	@echo "make wheel      the package photon-join, into dist/, for Python 3.11 and 3.12"
	@echo "make lock       requirements.lock anew from pyproject.toml"
	@echo "make clean      remove .venv and all that the other targets made"

# The packages are compiled while JARs are fetched: the one takes processors, the other the network.
setup: | prerequisites
	@$(MAKE) --no-print-directory --jobs 2 $(BIN)/.archived $(BIN)/.compiled

# Asked before anything is installed, so that what is missing is said at once and in one line.
prerequisites:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 with venv is missing. Install it (for example: apt-get install python3.11-venv)" \
	       "or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m photon.toolchain.fetch --check-java

# Stamps: a change in what is fetched does not install the packages again.
# --no-deps: the lock is complete, so nothing outside it can slip in. compat: examples are found from any folder.
$(BIN)/.installed: requirements.lock pyproject.toml | prerequisites
	@test -x $(BIN)/python || { echo "making .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing the packages of requirements.lock into .venv (one to three minutes the first time)"
	@$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

# pip would compile them one after the other. What some package can't compile, such as a template, is no error.
$(BIN)/.compiled: $(BIN)/.installed
	@$(BIN)/python -m compileall -q -j 0 .venv/lib assets jobs orchestration photon resources >/dev/null || true
	@touch $@

$(BIN)/.fetched: $(BIN)/.installed $(wildcard photon/toolchain/*.py) | prerequisites
	@$(BIN)/python -m photon.toolchain.fetch
	@touch $@

$(BIN)/.archived: $(BIN)/.fetched jobs/class_archive.py jobs/session.py
	@$(BIN)/python -m photon.jobs.class_archive
	@touch $@

# Four minutes the first time. Without Go nothing is built, and the tests that need it are skipped. It needs no
# package: beside make setup it takes the processors while that waits for the network.
minio:
	$(PYTHON) -m photon.toolchain.minio

# Endpoints for tests, figures and the demo. Where there is none for the machine, DynamoDB Local is fetched.
dynoxide: setup
	@$(BIN)/python -m photon.toolchain.fetch --dynoxide

dynamodb-local: setup
	@$(BIN)/python -m photon.toolchain.fetch --dynamodb-local

kafka: setup
	@$(BIN)/python -m photon.toolchain.fetch --kafka

# dbt's packages and Photon's don't fit into one environment; this one sees Photon's code.
dbt: setup
	@test -x .venv/dbt/bin/python || $(PYTHON) -m venv .venv/dbt
	@.venv/dbt/bin/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r examples/dbt/requirements.txt
	@echo "$(CURDIR)" > "$$(.venv/dbt/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/photon.pth"
	@echo "dbt is in .venv/dbt/bin"

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory weight

# It reads sources alone, and needs no .venv.
weight:
	@$(PYTHON) infra/weight.py

# Its theme says at each build that it will be replaced some day.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html is made"

# These need minutes, or programs of Debian (chromium, postgresql, prometheus).
REST = slow or browser or services
# More processes than cores, since tests of kills and servers often wait. Each has whole files: their tests share
# servers, joins and Spark sessions. Folders with long files come first, so that all end at about the same time.
PROCESSES := 5
BY_FILE = $(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --ignore tests/e2e/outages
FOLDERS = tests/services tests/spark tests/orchestration tests/e2e tests/contract tests/simulation tests/registry \
  tests/releases tests/feed tests/landing tests/unit
# The longest come first: one process has each, and all tests with Spark's session.
LONGEST = tests/spark/test_backfill.py $(addprefix tests/e2e/test_,installed.py on_s3.py demo.py requests_to_s3.py \
  cluster_away.py) tests/services/test_production_dagster.py tests/services/test_landing_dagster.py \
  tests/orchestration/test_starts.py
# Each process looks through all tests first, which takes 20 s of a core; through the files that have slow ones, 10.
SLOW_FILES = $(shell grep -rlE 'mark\.(slow|services)' $(FOLDERS) --include='test_*.py' --exclude-dir outages)
# A file with tests of make test that were skipped, one a line, and now have their programs.
AGAIN ?= /dev/null

# Tests without their program are skipped. All stages add them to one file, which the end of a run tells.
SKIPPED := $(CURDIR)/$(BIN)/skipped-tests
TELL_SKIPPED = @$(BIN)/python -m tests.support.programs $(SKIPPED)
test test-all: export PHOTON_SKIPPED_TESTS := $(SKIPPED)

# Every rule once.
test: none-skipped setup dynoxide dynamodb-local
	$(BY_FILE) $(FOLDERS) -m "not ($(REST) or long)"
	@echo "Left out here: $(REST), which make test-all runs, and long, which make test-long does"
	$(TELL_SKIPPED) --no-other

none-skipped:
	@rm -f $(SKIPPED)

# The rest: whole processes and datacenters that die, servers of Debian, browsers (the tests of one platform in one
# process). One group after the other: side by side all of them wait for the same two cores. Outages take both alone.
test-all: PROCESSES := 6
test-all: none-skipped setup dynoxide dynamodb-local kafka
	PHOTON_TESTS_AGAIN=$(AGAIN) $(BY_FILE) $(LONGEST) $(shell cut -d: -f1 $(AGAIN) | sort -u) $(SLOW_FILES) \
	  -m "again or ((slow or services) and not (long or browser))"
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "browser and not long" tests/browser
	$(BIN)/pytest -m "not long" tests/e2e/outages
	$(TELL_SKIPPED)

# People run these by hand; shorter tests hold the same, and fewer examples of Hypothesis. Whole demos and real logs
# under Spark take both cores.
test-long: setup dynoxide dynamodb-local
	$(BIN)/pytest -n 2 --hypothesis-profile long -m "(long or hypothesis) and not (spark or slow)"
	$(BIN)/pytest -m "long and (spark or slow)"

# tests/browser/screenshots.py says which. A look at each before it is committed does no harm.
screenshots: setup
	$(BIN)/python -m tests.browser.screenshots docs/images

# One that fails is printed, with how to run it again.
soak: dynoxide
	$(BIN)/python -m tests.simulation.whole.simulation --seeds 100000
	$(BIN)/python -m tests.registry.simulation --seeds 20000
	$(BIN)/python -m tests.simulation.whole.simulation --restored --seeds 20000
	$(MAKE) soak-outages

soak-outages: dynoxide
	$(BIN)/python -m tests.e2e.outages.drive --kills 200
	$(BIN)/python -m tests.e2e.outages.in_turn

# These write thousands of small tables, and whole commands wait for the disk. In memory, and with one thread of
# delta-rs, they take four fifths of the time; 4 GB must be free there (a container often has 64 MB).
test test-fast test-all: export TOKIO_WORKER_THREADS := 1
test test-fast test-all: export TMPDIR := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')
test-fast: setup
	$(BY_FILE) $(FOLDERS) -m "not (spark or server or long or $(REST))"

LAKE ?= local
demo: dynoxide
	$(BIN)/python -m examples.demo --lake $(LAKE)

# Goes on with what the demo left, its history in Dagster's UI included.
dev: dynoxide
	$(BIN)/python -m examples.demo --stay

example: setup
	$(BIN)/python examples/make_logs.py examples/search_clicks
	$(BIN)/photon join examples/search_clicks/pipeline.yaml --complete --json

bench: setup
	$(BIN)/python -m bench join

bench-quick: setup
	$(BIN)/python -m bench join --size quick

bench-live: setup
	$(BIN)/python -m bench live

bench-backfill: setup
	$(BIN)/python -m bench rebuild

bench-tables: setup
	$(BIN)/python -m bench tables

bench-scaling: setup
	$(BIN)/python -m bench scaling

bench-verification: setup
	$(BIN)/python -m bench verification

bench-feed: setup
	$(BIN)/python -m bench feed

bench-landing: kafka
	$(BIN)/python -m bench landing
	$(BIN)/python -m bench landing-peers

bench-s3: setup
	$(BIN)/python -m bench s3

bench-killed-shift: setup
	$(BIN)/python -m bench killed-shift

bench-returning: setup
	$(BIN)/python -m bench returning

bench-month: setup
	$(BIN)/python -m bench month

# For make bench, which makes it too where it is missing: 400 MB below ~/.cache/photon.
flink: setup
	$(BIN)/python -m bench.flink_environment

figures: dynoxide
	$(BIN)/python -m bench figures

# From nothing that an earlier build left: setuptools would take files along that are no more.
wheel:
	@rm -rf build dist
	@$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	@echo "$$(echo dist/*.whl) is made. Install it: pip install '$$(echo dist/*.whl)[spark]', then: photon setup"

# Keeps the versions that still fit; to take newer ones, remove requirements.lock first.
lock:
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && \
	$(PYTHON) -m venv "$$tools" && "$$tools/bin/pip" install --quiet uv==$(UV_VERSION) && \
	"$$tools/bin/uv" pip compile pyproject.toml --extra dev --output-file requirements.lock --quiet \
	  --no-config --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	  --no-header --no-emit-index-url --no-emit-find-links
	@echo "requirements.lock is made"

clean:
	rm -rf .venv *.egg-info build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf site spark-warehouse metastore_db derby.log demo examples/*/logs examples/*/lake examples/*/state
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
