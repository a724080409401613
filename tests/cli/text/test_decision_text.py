"""Sentences on what memory is worth: every case of a change, in words that say what was proven."""

from evenflow.cli.text.decision_text import decision_sentences
from evenflow.model import Plan
from evenflow.solve.memory_curve import MemoryCurve, MemoryPoint
from evenflow.solve.outcome import BindingLimit
from evenflow.solve.sensitivity import RankWorth, Sensitivity
from evenflow.units import GIGABYTE, MEGABYTE

STEP = 200_000_000
LIMIT = 40 * GIGABYTE
PLAN = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),))


def point(more_mb: int, step_ns: int, bound_ns: int | None = None) -> MemoryPoint:
    bound = step_ns if bound_ns is None else bound_ns
    return MemoryPoint(plan=PLAN, peak_bytes=LIMIT + more_mb * MEGABYTE, step_ns=step_ns, lower_bound_ns=bound)


def sentences(*points, ranks=(), binding=(), num_binding=0, is_whole=True, is_least=True, floor_ns=None):
    worth = Sensitivity(
        step_ns=STEP,
        limit_bytes=LIMIT,
        curve=MemoryCurve(
            points=points,
            least_bytes=points[0].peak_bytes if is_least else None,
            is_whole=is_whole,
            floor_ns=points[-1].step_ns if floor_ns is None else floor_ns,
        ),
        ranks=tuple(ranks),
        binding=tuple(range(num_binding or len(ranks))),
    )
    return decision_sentences(binding, worth)


def test_the_next_stairs_and_the_ends_of_the_curve():
    binding = BindingLimit(rank=0, more_bytes=300 * MEGABYTE, takes_layer=False)
    found = sentences(
        point(-5120, 260_000_000),
        point(-2048, 230_000_000, 229_000_000),
        point(-100, STEP),
        point(650, 193_430_000),
        point(3072, 192_500_000),
        point(4096, 192_000_000),
        binding=[binding],
    )
    assert found == [
        "memory binds on rank 0: with 300 MB more it would recompute less",
        "with 650 MB more on every rank a step would take 193.4 ms, 6.57 ms less (3.29 %)",
        "with 4 GB more on every rank a step would take 192.0 ms, 8 ms less (4.00 %); more than that makes no step "
        "shorter",
        "with 2 GB less on every rank a step would take 230.0 ms, 30 ms more (15.00 %); not less than 229.0 ms",
        "with less than 35 GB on every rank no plan would fit; with that a step would take 260.0 ms, 60 ms more "
        "(30.00 %)",
    ]


def test_a_plan_that_memory_does_not_bind():
    assert sentences(point(-5, STEP))[1:] == [
        "more memory on every rank makes no step shorter (proven)",
        "with less than 40 GB on every rank no plan would fit; with that a step would take as long, 200.0 ms",
    ]


def test_what_the_time_did_not_suffice_for():
    found = sentences(point(-5, STEP), is_whole=False, is_least=False, floor_ns=190_000_000)[1:]
    assert found == [
        "with more memory on every rank no shorter step was found; not less than 190.0 ms",
        "the time did not suffice for every stair: there may be shorter steps between these",
    ]


def test_memory_of_one_rank():
    ranks = (
        RankWorth(rank=0, more_bytes=2 * GIGABYTE, step_ns=STEP - 1_000_000, lower_bound_ns=STEP - 1_000_000),
        RankWorth(rank=1, more_bytes=GIGABYTE, step_ns=STEP, lower_bound_ns=STEP),
        RankWorth(rank=2, more_bytes=GIGABYTE, step_ns=STEP, lower_bound_ns=STEP - 8_000_000),
    )
    assert sentences(point(0, STEP), ranks=ranks, num_binding=5)[3:] == [
        "rank 0 alone with 2 GB more: 1 ms less",
        "rank 1 alone with 1 GB more: no shorter step (proven)",
        "rank 2 alone with 1 GB more: no shorter step; not less than 192.0 ms",
        "the time did not suffice for 2 more of the ranks whose limit binds",
    ]


def test_nothing_is_said_of_more_memory_that_was_not_tried():
    assert sentences(point(-5, STEP), is_whole=False, is_least=False, floor_ns=0)[1:] == [
        "the time did not suffice for every stair: there may be shorter steps between these"
    ]
