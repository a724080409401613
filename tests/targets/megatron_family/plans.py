"""Plans that Megatron-LM's own flags can say, for tests of several modules."""

from hypothesis import strategies as st

from evenflow.model import Plan
from evenflow.model.plan import cells


@st.composite
def flag_plans(draw: st.DrawFn) -> Plan:
    """Plans of any cut, with chunks, groups and recomputation."""
    ranks, chunks = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    chunks = 1 if ranks == 1 else chunks
    row = st.lists(st.integers(0, 9), min_size=ranks, max_size=ranks)
    layers = cells(draw(st.lists(row, min_size=chunks, max_size=chunks).filter(lambda rows: any(map(any, rows)))))
    if chunks == 1:
        count, group = draw(st.integers(1, 40)), None
    else:
        group = draw(st.integers(ranks, 3 * ranks))
        rest = draw(st.sampled_from([0, *range(ranks, group)]))
        count = group * draw(st.integers(1, 4)) + rest
        group = None if group == ranks else group
    kind = draw(st.sampled_from(["none", "full", "select"]))
    recompute = {}
    if kind == "full":
        most = draw(st.integers(1, max(map(max, layers))))
        recompute = {"full": cells([[min(most, each) for each in row] for row in layers])}
    elif kind == "select":
        recompute = {"select": layers}
    return Plan(
        schedule="interleaved" if chunks > 1 else "1f1b",
        num_microbatches=count,
        layers=layers,
        recompute=recompute,
        group_size=group,
    )
