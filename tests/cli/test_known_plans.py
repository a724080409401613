"""Every verb with a real solver and hardly any time: none answers with a plan longer than one that it knows."""

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.model import Communication, Plan, Request, Sizes
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_fields import network_fields, plan_fields
from evenflow.schedule import make_schedule
from evenflow.simulate import Simulation, simulate
from evenflow.solve.order.fitted import solve_fitted
from evenflow.solve.order.ordered_outcome import with_order
from evenflow.units import milliseconds
from tests.cli.conftest import TINY
from tests.cli.verbs.tune.test_tune_command import ASKED
from tests.networks import plain_network
from tests.solve.cases import NO_SHRINKING, cases
from tests.solve.test_known_plans import plans_of
from tests.thoroughness import examples

ANY_FIXTURE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much]
NO_TIME = ("--time-limit", 0.001)
TWO = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2),))
SPLIT = make_schedule("zb-h1", num_ranks=2, num_chunks=1, num_microbatches=4)


@pytest.fixture
def tiny():
    return parse_layer_file(json.dumps(TINY), place="tiny.json")


def write_plan(folder, simulation: Simulation, name="given.json", *, limit: int | None = None) -> float:
    """Write the plan file of a step, and return the milliseconds of the step."""
    fields = plan_fields(simulation, status="feasible", lower_bound_ns=None, memory_limit_bytes=limit)
    (folder / name).write_text(json.dumps(fields | network_fields(simulation)))
    return milliseconds(simulation.makespan_ns)


def answer(evenflow, folder, *words):
    """Run a verb, and return its JSON file."""
    result = evenflow(*words, "--json", "answer.json", "--overwrite")
    assert result.exit_code == 0, result.output
    return json.loads((folder / "answer.json").read_text())


class TestPlan:
    """``evenflow plan PLAN.json``."""

    @pytest.mark.parametrize("options", [(), ("--target", "torch"), ("--schedule", "search", "--split-backward")])
    def test_an_order_of_its_own(self, evenflow, folder, tiny, options):
        given_ms = write_plan(folder, simulate(tiny, with_order(TWO, SPLIT)))
        found = answer(evenflow, folder, "plan", "given.json", *options, *NO_TIME)
        assert found["makespan_ms"] <= given_ms

    def test_a_cell_without_a_layer(self, evenflow, folder, tiny):
        plan = Plan(schedule="1f1b", num_microbatches=1, layers=((4, 0),))
        slow = Communication(latency_ns=10**9)
        given_ms = write_plan(folder, simulate(tiny, plan, communication=slow))
        assert answer(evenflow, folder, "plan", "given.json", *NO_TIME)["makespan_ms"] <= given_ms


OPTIONS = [
    (),
    (),
    ("--schedule", "1f1b"),
    ("--schedule", "zb-h1"),
    ("--less-memory",),
    ("--chunks", 1),
    ("--chunks", 2),
]
MANUAL = """\
even:
  offset: 0
  recompute: false
  interleave_num: {chunks}
"""


class TestCompare:
    """``evenflow compare``: no row that fits is shorter than the recommended one, unless an option leaves it out."""

    @given(data=st.data(), case=cases(time=10**6, memory=2**20))
    @settings(max_examples=examples(25), deadline=None, phases=NO_SHRINKING, suppress_health_check=ANY_FIXTURE)
    def test_no_row_is_shorter(self, evenflow, folder, data, case):
        problem = case.problem()
        plan = data.draw(plans_of(case))
        step = problem.simulate(problem.counts(plan))
        limits = [None, max(step.peak_memory_bytes), 2 * max(step.peak_memory_bytes)]
        limit = data.draw(st.sampled_from(limits))
        write_plan(folder, step, limit=limit)
        chunks = data.draw(st.integers(1, 3))
        manual = plan.sequence_splits == 1 and case.network.num_layers >= chunks * plan.num_ranks
        (folder / "manual.yaml").write_text(MANUAL.format(chunks=chunks))
        options = data.draw(st.sampled_from(OPTIONS))
        result = evenflow(
            "compare", "given.json", *NO_TIME, *options, *(("--manual", "manual.yaml") if manual else ()),
            "--json", "answer.json", "--overwrite",
        )  # fmt: skip
        assume(result.exit_code != 2)  # such as a schedule that has no such chunks
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        check_rows(json.loads((folder / "answer.json").read_text()), limit, result.stderr, options)

    def test_a_row_with_groups_or_an_order_of_its_own(self, evenflow, folder):
        network = plain_network(24, "select")
        sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=12)
        groups = replace(even_plan(network, sizes, schedule="interleaved"), group_size=7)
        made = solve_fitted(
            Request(network=network, sizes=Sizes(num_ranks=3, num_microbatches=7)), schedule="zb-h1", time_limit_s=2
        )
        for step in (simulate(network, groups), made.simulation):
            write_plan(folder, step)
            rows = answer(evenflow, folder, "compare", "given.json", *NO_TIME)
            assert rows["recommended"]["makespan_ms"] <= rows["given"]["makespan_ms"]


def check_rows(rows, limit, stderr, options):
    """Check that none that fits is shorter than the recommended one, but for those that options leave out."""
    best = rows.pop("recommended")
    for name, row in rows.items():
        if row.get("status") == "skipped" or (limit is not None and max(row["peak_memory_mb"]) * 2**20 > limit):
            continue
        if best["makespan_ms"] is None or row["makespan_ms"] < best["makespan_ms"]:
            assert options
            assert f"note: {name} fits and takes" in stderr


RUNS = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --ffn-hidden-size 4096 --swiglu \\
  --num-attention-heads 16 --group-query-attention --num-query-groups 4 --seq-length 2048 --vocab-size 32000 \\
  --untie-embeddings-and-output-weights --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
  --micro-batch-size 1 --global-batch-size 16 --bf16
"""


class TestTune:
    """``evenflow tune``: no row of an answer on as many devices is shorter than the first of the ranking."""

    @pytest.mark.parametrize("limit_s", [0.001, 0.2, 1.0])
    @pytest.mark.parametrize("memory", ["80GB", "7GB"])
    def test_nothing_is_shorter_than_the_first_row(self, evenflow, folder, limit_s, memory):
        (folder / "run.sh").write_text(RUNS)
        words = [*ASKED, "--max-context", 1, "--memory", memory, "--baseline", "run.sh", "--time-limit", limit_s]
        found = answer(evenflow, folder, *words, "--pareto", "--neighbours", "--explain", 2)
        rows = [*found["ranked"], *found["pareto"]["memory"], *found["pareto"]["changes"]]
        rows += [one for one in found["neighbours"] if one["step_ms"] is not None]
        steps = [row["step_ms"] for row in rows]
        if found["baseline"]["fits"] and found["baseline"]["outside"] is None:
            steps.append(found["baseline"]["step_ms"])
        if found["baseline"]["improved_step_ms"] is not None:
            steps.append(found["baseline"]["improved_step_ms"])
        assert found["step_ms"] == found["ranked"][0]["step_ms"] <= min(steps)
