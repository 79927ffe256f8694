# The two commands: `make demo` runs the main job on real input, `make test` passes the tests.
# Both set up what they need (.venv; Debian packages where root) and are quick the second time.
PYTHON ?= python3
export PYTHON
PY := .venv/bin/python
# Hundreds of processes start in the tests: what is compiled once starts in half the time, whatever is exported.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup demo test thorough check lint fmt flows flows-catalog flows-crash flows-harness flows-machines flows-models flows-postgres flows-runs flows-sandbox flows-vendors canary golden schemas docs bench bench-reconcile bench-router race

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:  ## .venv and system packages, once
	@.ci/setup

demo: setup  ## an agent reads a scanned invoice; the engine behind it is swapped by one line
	@$(PY) -m tests.kit.demo

test: lint  ## everything: lint, fast tests, slow tests, whole-way flows
	$(PY) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder --ignore tests/test_house.py || { test $$? = 1 && $(PY) -m tests.kit.alone; }

check: lint  ## lint and the fast tests: under 90 seconds
	$(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --ignore tests/test_house.py -m "not slow and not flow"

lint: setup  ## ruff, mypy --strict, the import contract, the house test
	@$(PY) -m compileall -q reconciler
	@$(PY) -m ruff check -q .
	@$(PY) -m ruff format -q --check .
	@# Beside mypy: pytest compiles the tests, which each worker would do for itself in a fresh clone, and the house test.
	@{ $(PY) -m pytest -q -p no:randomly tests/test_house.py > .house.log 2>&1; found=$$?; \
	$(PY) -m pytest -qq --collect-only > /dev/null 2>&1; exit $$found; } & house=$$!; \
	$(PY) -m mypy --no-error-summary; found=$$?; wait $$house || { cat .house.log; exit 1; }; rm -f .house.log; exit $$found
	@.venv/bin/lint-imports --no-cache > .lint-imports.log 2>&1 || { cat .lint-imports.log; exit 1; }; rm -f .lint-imports.log

fmt: setup  ## format the code
	$(PY) -m ruff check -q --fix .
	$(PY) -m ruff format -q .

flows: setup  ## the whole way only: real daemon, sandbox, every page for every engine, clients
	HANDLER_EFFORT=2 $(PY) -m pytest -q -m flow

thorough: setup  ## all tests with seven times the examples, orders and kills: for a night
	HANDLER_EFFORT=7 $(PY) -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

flows-catalog: setup  ## every connector of the catalogue that needs no key: interface × connector × cases (installs engines)
	$(PY) -m pytest -q -s -p no:randomly tests/catalog/matrix.py

flows-models: setup  ## a real llama.cpp (tiny weights, forced labels) decides where a chain goes (installs xllamacpp)
	$(PY) -m pytest -q -p no:randomly tests/catalog/real_models.py

flows-runs: setup  ## runs of chains whose controller is killed after each answer and at odd moments: effects count
	$(PY) -m tests.kit.killedruns

flows-crash: setup  ## a real SIGKILL at every point of an attempt, by three kinds of far ends: what became of it
	@$(PY) -m tests.kit.crash

flows-postgres: setup  ## the ledger on PostgreSQL: its contract, two controllers, the crash matrix (installs Debian's)
	@.ci/postgres
	HANDLER_POSTGRES=1 $(PY) -m pytest -q -p no:randomly tests/attempts tests/flows/test_shared_ledger.py
	@$(PY) -m tests.kit.crash --postgres

flows-harness: setup  ## real harnesses, offline, with a scripted model (installs 1.6 GB once)
	$(PY) -m pytest -q -p no:randomly tests/harnesses/matrix.py

flows-egress: setup  ## attempt → verdict: past a permit, another byte, path, host; redirects, rebinding
	$(PY) -m tests.egress.report

flows-vendors: setup  ## what drivers write, by the types of the vendors' own packages; a fake vendor, by their own clients
	$(PY) -m pytest -q -p no:randomly tests/drivers/vendor_types.py

flows-sandbox: setup  ## attempt → what stopped it, as root and as an ordinary user; how hosts may be spelled
	$(PY) -m tests.walls.report

flows-machines: setup  ## walls with control groups v2 under systemd and on aarch64, in emulated machines (root, 3 GB)
	@.ci/machines
	$(PY) -m tests.machines.report $(MACHINES)

canary: setup  ## markers in every slot, every failure forced, everything searched: each form by each way
	HANDLER_CANARY=all $(PY) -m pytest -q -p no:randomly tests/flows/test_canary.py

golden: setup  ## rewrite the golden texts; review the diff
	HANDLER_GOLDEN=write $(PY) -m pytest -q tests/golden tests/doors tests/reasons
	git --no-pager diff --stat -- tests/golden

race: setup  ## attackers swap folders, links and files for 10 seconds: none may get out of a scope
	$(PY) -m tests.kit.race 10

schemas: setup  ## write schemas/ from the models
	$(PY) .ci/schemas

docs: setup  ## write the tables of the docs from the code, and check that their code blocks are true
	$(PY) .ci/problems
	$(PY) .ci/reasons
	$(PY) -m tests.walls.report --write
	$(PY) -m pytest -q tests/test_docs.py tests/test_reasons.py

bench: setup  ## every benchmark: ratios against floors in one run
	for one in router reconcile coldstart wayout cli handoff ledger; do $(PY) benchmarks/$$one.py || exit 1; done

bench-router: setup  ## a call through the router beside its floors; PEERS=1: beside public gateways: ✓ or ✗
	$(PY) benchmarks/router.py --pin 0
	if [ -n "$(PEERS)" ]; then $(PY) benchmarks/gateways.py; fi

bench-reconcile: setup  ## how long a reconcile takes and what it costs at rest: ✓ or ✗ for each goal
	$(PY) benchmarks/reconcile.py
