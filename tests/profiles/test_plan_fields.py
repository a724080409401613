from types import SimpleNamespace
from typing import cast

from evenflow.export.results.json_text import format_object
from evenflow.model import Plan
from evenflow.profiles.plan_fields import plan_fields
from evenflow.simulate import BubbleTable, FillDrain, Simulation

PLAN = Plan(
    schedule="interleaved",
    num_microbatches=32,
    layers=((2, 3), (3, 2)),
    recompute={"full": ((1, 0), (0, 0)), "mine": ((0, 1), (0, 0))},
)
GOLDEN = """{
  "status": "optimal",
  "makespan_ms": 2000.0,
  "lower_bound_ms": 1500.0,
  "gap": 0.25,
  "ranks": 2,
  "chunks": 2,
  "microbatches": 32,
  "schedule": "interleaved",
  "sequence_splits": 1,
  "layers": [[2, 3], [3, 2]],
  "recompute": {"full": [[1, 0], [0, 0]], "select": [[0, 0], [0, 0]], "comm": [[0, 0], [0, 0]], "both": [[0, 0], [0, 0]], "mine": [[0, 1], [0, 0]]},
  "peak_memory_mb": [1.5, 2.0],
  "memory_limit_mb": 57344.0,
  "memory_binds": null,
  "bubble": {"real": 0.4, "ideal": 0.1, "imbalance": 0.2, "recompute": 0.1, "communication": 0.0},
  "fill_drain": {"simulated": 0.1, "by_formula": 0.1, "formula": "(p-1) (f+b)", "no_formula": null}
}
"""  # noqa: E501


def written(memory_limit_bytes: int | None, *, lower_bound_ns: int | None = 1_500_000_000) -> dict[str, object]:
    simulation = SimpleNamespace(
        plan=PLAN,
        network=SimpleNamespace(host_link=None),
        encoded=None,
        hidden_ns=None,
        exposed_ns=None,
        makespan_ns=2_000_000_000,
        peak_memory_bytes=(3 * 2**19, 2**21),
        bubbles=BubbleTable(communication=0.0, real=0.4, ideal=0.1, imbalance=0.2, recompute=0.1),
        fill_drain=FillDrain(simulated=0.1, by_formula=0.1, words="(p-1) (f+b)"),
    )
    return plan_fields(
        cast("Simulation", simulation),
        status="optimal",
        lower_bound_ns=lower_bound_ns,
        memory_limit_bytes=memory_limit_bytes,
    )


def test_every_field_of_the_schema_in_order():
    assert format_object(written(56 * 2**30)) == GOLDEN


def test_no_limit_is_null():
    assert written(None)["memory_limit_mb"] is None


def test_without_a_bound_bound_and_gap_are_null():
    fields = written(None, lower_bound_ns=None)
    assert (fields["lower_bound_ms"], fields["gap"], fields["makespan_ms"]) == (None, None, 2000.0)
