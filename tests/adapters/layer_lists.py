"""Lists of layers, and plans for them."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from evenflow.model import FULL, Plan, cells
from tests.adapters.stub_packages import Module, Spec


@st.composite
def full_plans(draw: st.DrawFn, *, max_chunks: int = 1) -> Plan:
    """Plans whose cells have any number of layers, empty at both ends of the network at most, some of them `full`."""
    ranks, chunks = draw(st.integers(1, 5)), draw(st.integers(1, max_chunks))
    stages = ranks * chunks
    counts = [draw(st.integers(0 if stage in (0, stages - 1) else 1, 4)) for stage in range(stages)]
    assume(sum(counts))
    full = [draw(st.integers(0, count)) for count in counts]
    rows = [slice(chunk * ranks, (chunk + 1) * ranks) for chunk in range(chunks)]
    return Plan(
        schedule="1f1b" if chunks == 1 else "interleaved",
        num_microbatches=draw(st.integers(2 * ranks, 4 * ranks)),
        layers=cells([counts[row] for row in rows]),
        recompute={FULL: cells([full[row] for row in rows])} if any(full) else {},
    )


def entries_for(plan: Plan, *, head: int, tail: int) -> list[Any]:
    """Modules, descriptions of modules and functions in turn."""
    makers = (Module, lambda number: Spec(Module, number), lambda number: lambda inputs: (number, inputs)[0])
    return [makers[index % 3](index) for index in range(head + plan.num_layers + tail)]
