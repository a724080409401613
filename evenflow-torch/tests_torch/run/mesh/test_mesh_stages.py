"""Stages on several devices each, on real processes: losses and gradients are those of the unsplit model."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch

from evenflow import auto
from evenflow.cluster.cluster import Link
from evenflow.cluster.mesh_plan import RowExchange
from evenflow.model import Plan
from tests.cluster.accelerators import plain_accelerator
from tests_torch.auto import fused_models
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.mesh_models import (
    CONTEXT,
    DATA,
    HIDDEN,
    SAMPLES,
    SEQUENCE,
    SHARDED,
    TENSOR,
    On,
    cluster,
    dropout_case,
    events_case,
    fused_case,
    gathers_case,
    mesh_case,
    planned_case,
    row_model,
    saved_case,
    tokens_on_mesh_case,
    training_case,
)

pytestmark = pytest.mark.processes

NUM_DEVICES = 4
TOLERANCE = 1e-12

ONE_STAGE = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))
PAIR_ON_ONE = Plan(schedule="1f1b", num_microbatches=2, layers=((3,),), recompute={"full": ((1,),)})
PAIR = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 2),), recompute={"full": ((1, 1),)})
"""Two microbatches are enough for a forward of the first rank beside a backward of the second."""
OF_THREE = replace(PAIR, num_microbatches=3)
SPLIT = Plan(schedule="zb-h1", num_microbatches=3, layers=((2, 1),), recompute={"full": ((1, 0),), "select": ((1, 1),)})
CHECKPOINTED = Plan(
    schedule="1f1b", num_microbatches=3, layers=((3, 2),), recompute={"full": ((1, 1),), "select": ((1, 1),)}
)
KEPT = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 2),))
OFFLOADED = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 2),), recompute={"offload": ((2, 1),)})
CHUNKS = Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (2, 0)))
OF_TWO = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),))
OF_FOUR = replace(OF_TWO, layers=((1, 1, 1, 1),))
THREE = Plan(schedule="eager-1f1b", num_microbatches=4, layers=((2, 1, 1),), recompute={"both": ((1, 0, 0),)})


def half(first: str, second: str) -> tuple[On, ...]:
    return (
        On(devices=(0, 1), mesh=(2,), axes=(first,)),
        On(devices=(2, 3), mesh=(2,), axes=(second,)),
    )


SQUARE = On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(DATA, TENSOR))
UNEVEN = (
    On(devices=(2, 3), mesh=(2,), axes=(TENSOR,)),
    On(devices=(1,), mesh=(1,), axes=(DATA,)),
    On(devices=(0,), mesh=(1,), axes=(DATA,)),
)

CASES: dict[str, Callable[[int], Answer]] = {
    "data x tensor, one stage": partial(mesh_case, ONE_STAGE, (SQUARE,)),
    "sharded data x sequence, one stage": partial(
        mesh_case, ONE_STAGE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(SHARDED, SEQUENCE)),)
    ),
    "context on two ranks": partial(mesh_case, PAIR, half(CONTEXT, CONTEXT)),
    "data x context, one stage": partial(
        mesh_case, ONE_STAGE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(DATA, CONTEXT)),)
    ),
    "ring, split backward": partial(mesh_case, SPLIT, half(CONTEXT, DATA), rows=RowExchange.RING),
    "ring, offloaded": partial(mesh_case, OFFLOADED, half(DATA, CONTEXT), rows=RowExchange.RING),
    "ring x tensor": partial(
        mesh_case, PAIR_ON_ONE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(CONTEXT, TENSOR)),), rows=RowExchange.RING
    ),
    "balanced x data": partial(
        mesh_case,
        PAIR_ON_ONE,
        (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(DATA, CONTEXT)),),
        rows=RowExchange.BALANCED,
    ),
    "data, split backward, split sums": partial(mesh_case, SPLIT, half(DATA, SHARDED), sums_parts=True),
    "data x tensor, split sums": partial(mesh_case, ONE_STAGE, (SQUARE,), sums_parts=True),
    "sharded data x tensor, one stage": partial(
        mesh_case, PAIR_ON_ONE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(SHARDED, TENSOR)),)
    ),
    "sharded data, split backward": partial(mesh_case, SPLIT, half(SHARDED, SHARDED), sums_parts=True),
    "sharded data, two chunks, tied": partial(mesh_case, CHUNKS, half(SHARDED, SHARDED), tied=True),
    "without products": partial(mesh_case, PAIR, half(TENSOR, SEQUENCE), with_products=False),
    "split backward": partial(mesh_case, SPLIT, half(TENSOR, DATA)),
    "offloaded": partial(mesh_case, OFFLOADED, half(TENSOR, SHARDED)),
    "two chunks": partial(mesh_case, CHUNKS, half(SEQUENCE, TENSOR)),
    "eager attention": partial(mesh_case, PAIR, half(TENSOR, DATA), attention="eager"),
    "tied, two, one and one device": partial(mesh_case, THREE, UNEVEN, tied=True),
    "data on four": partial(mesh_case, ONE_STAGE, (On(devices=(0, 1, 2, 3), mesh=(4,), axes=(DATA,)),)),
    "tokens": partial(tokens_on_mesh_case, OF_THREE, half(TENSOR, DATA)),
    "ring on two ranks": partial(mesh_case, PAIR, half(CONTEXT, CONTEXT), rows=RowExchange.RING),
    "data, split sums": partial(mesh_case, PAIR, half(DATA, DATA), sums_parts=True),
    "sharded data, sharded data": partial(mesh_case, PAIR, half(SHARDED, SHARDED)),
    "tensor, tensor": partial(mesh_case, PAIR, half(TENSOR, TENSOR)),
    "tied": partial(mesh_case, PAIR, half(TENSOR, DATA), tied=True),
    "tied, one stage": partial(mesh_case, ONE_STAGE, (SQUARE,), tied=True),
    "sharded data x sequence, split sums": partial(
        mesh_case, PAIR_ON_ONE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(SHARDED, SEQUENCE)),), sums_parts=True
    ),
    "sharded data on four, tied": partial(
        mesh_case, ONE_STAGE, (On(devices=(0, 1, 2, 3), mesh=(4,), axes=(SHARDED,)),), tied=True
    ),
    "two, one and one device": partial(mesh_case, THREE, UNEVEN),
    "sharded data, offloaded": partial(mesh_case, OFFLOADED, half(SHARDED, SHARDED)),
    "sequence, sharded data": partial(mesh_case, PAIR, half(SEQUENCE, SHARDED)),
    "data, tensor": partial(mesh_case, PAIR, half(DATA, TENSOR)),
}
TRAININGS: dict[str, Callable[[int], Answer]] = {
    "data, tensor, trained": partial(training_case, PAIR, half(DATA, TENSOR)),
    "sharded data, trained": partial(training_case, PAIR, half(SHARDED, SHARDED)),
    "tied, trained": partial(training_case, PAIR, half(DATA, DATA), tied=True),
}
DROPPING: dict[str, Callable[[int], Answer]] = {
    "dropout, tensor, data": partial(dropout_case, PAIR, half(TENSOR, DATA)),
    "dropout, sequence, context": partial(dropout_case, SPLIT, half(SEQUENCE, CONTEXT)),
    "dropout, eager, four": partial(
        dropout_case, PAIR_ON_ONE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(SHARDED, TENSOR)),), attention="eager"
    ),
}
SAVED: dict[str, Callable[[int], Answer]] = {
    "saved, data to tensor, tied": partial(saved_case, PAIR, half(DATA, TENSOR), PAIR, half(SEQUENCE, DATA), tied=True),
    "saved, four to sharded data": partial(
        saved_case,
        replace(ONE_STAGE, layers=((4,),)),
        (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(SHARDED, TENSOR)),),
        replace(OF_TWO, layers=((1, 3),)),
        half(DATA, SHARDED),
    ),
    "saved, to one device a rank": partial(saved_case, OF_TWO, half(SHARDED, TENSOR), OF_FOUR, None, tied=True),
    "saved, from one device a rank": partial(saved_case, OF_FOUR, None, OF_TWO, half(DATA, DATA), tied=True),
}
EVENTS: dict[str, Callable[[int], Answer]] = {
    "events, data on four": partial(events_case, PAIR_ON_ONE, (On(devices=(0, 1, 2, 3), mesh=(4,), axes=(DATA,)),)),
    "events, data, data": partial(events_case, OF_THREE, half(DATA, DATA)),
    "events, split sums": partial(events_case, OF_THREE, half(DATA, DATA), sums_parts=True),
    "events, split backward": partial(events_case, SPLIT, half(DATA, DATA)),
}
GATHERS: dict[str, Callable[[int], Answer]] = {
    f"gathers, {name}": partial(gathers_case, plan, half(SHARDED, SHARDED))
    for name, plan in {
        "kept": KEPT, "recomputed": CHECKPOINTED, "split backward": SPLIT, "offloaded": OFFLOADED
    }.items()
}  # fmt: skip


WIDE = {
    "context on two ranks", "ring, offloaded", "data x tensor, split sums", "sharded data x tensor, one stage",
    "split backward", "two chunks", "ring on two ranks", "data, split sums", "sharded data, sharded data",
    "tensor, tensor", "tied", "tied, one stage", "sharded data x sequence, split sums", "sharded data on four, tied",
    "two, one and one device", "sharded data, offloaded", "sequence, sharded data", "data, tensor",
    "data, tensor, trained", "events, data, data", "gathers, kept", "sharded data, split backward", "fused, tensor 4",
}  # fmt: skip
"""Those of which each part is in another, beside something else."""


def planned(intra: Link) -> Callable[[int], Answer]:
    """A row of modules planned for four devices."""
    machines = replace(cluster(NUM_DEVICES), intra=intra)
    examples = torch.empty(SAMPLES, HIDDEN, dtype=torch.float64, device="meta")
    accelerator = plain_accelerator(flops_per_s=1e8, memory_bytes_per_s=1e9)
    found = auto.plan(row_model(), examples, machines, num_microbatches=3, accelerator=accelerator)
    return partial(planned_case, found.simulation.plan, found.mesh_plan)


def fused(**degrees: int) -> Callable[[int], Answer]:
    """Blocks with one product for queries, keys and values, planned for four devices with these degrees."""
    size = fused_models.SAMPLES, fused_models.LENGTH, fused_models.WIDTH
    example = torch.empty(size, dtype=torch.float64, device="meta")
    node = replace(cluster(NUM_DEVICES), num_nodes=1, devices_per_node=NUM_DEVICES)
    found = auto.plan(fused_models.fused_model(), example, node, num_microbatches=2, fixed=auto.Fixed(**degrees))
    assert {stage.use.words for stage in found.stages} <= {"tensor parallel over 2", "tensor parallel over 4"}
    return partial(fused_case, found.simulation.plan, found.mesh_plan)


PLANNED = ("planned, fast links in a node", "planned, slow links")
FUSED: dict[str, dict[str, int]] = {"fused, tensor 2": {"tensor": 2, "pipeline": 2}, "fused, tensor 4": {"tensor": 4}}


def fused_cases(*, wide: bool) -> dict[str, Callable[[int], Answer]]:
    return {name: fused(**degrees) for name, degrees in FUSED.items() if (name in WIDE) == wide}


def of_width(*cases: Mapping[str, Callable[[int], Answer]], wide: bool) -> dict[str, Callable[[int], Answer]]:
    return {name: case for some in cases for name, case in some.items() if (name in WIDE) == wide}


def each(*names: str) -> pytest.MarkDecorator:
    """Ask for every case; those that are wide are slow."""
    marked = [pytest.param(name, marks=pytest.mark.slow) if name in WIDE else name for name in names]
    return pytest.mark.parametrize("name", marked)


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    links = Link(bytes_per_s=10**11), Link(bytes_per_s=10**7)
    cases = {name: planned(link) for name, link in zip(PLANNED, links, strict=True)}
    return untroubled(
        of_width(CASES, TRAININGS, DROPPING, SAVED, EVENTS, GATHERS, cases, fused_cases(wide=False), wide=False),
        NUM_DEVICES,
    )


@pytest.fixture(scope="module")
def wide_answers() -> dict[str, list[Answer]]:
    return untroubled(
        of_width(CASES, TRAININGS, DROPPING, SAVED, EVENTS, GATHERS, fused_cases(wide=True), wide=True), NUM_DEVICES
    )


@pytest.fixture
def of_case(request: pytest.FixtureRequest, name: str) -> list[Answer]:
    """What all devices answer."""
    of_all: dict[str, list[Answer]] = request.getfixturevalue("wide_answers" if name in WIDE else "answers")
    return of_all[name]


@each(*CASES, *DROPPING, *PLANNED, *FUSED)
def test_losses_and_gradients_are_those_of_the_unsplit_model(of_case: list[Answer]) -> None:
    assert max(answer.error for answer in of_case) <= TOLERANCE
    losses = [answer.loss_error for answer in of_case if answer.loss_error is not None]
    assert losses
    assert max(losses) <= TOLERANCE


def test_every_device_has_its_part_of_the_parameters_only(answers: dict[str, list[Answer]]) -> None:
    assert all(answer.found == 1 for answer in answers["data on four"])
    assert all(answer.found < 0.6 for answer in answers["data x tensor, one stage"])
    assert all(answer.found < 0.4 for answer in answers["sharded data x sequence, one stage"])


@each(*TRAININGS)
def test_a_stock_optimizer_trains_the_same_model(of_case: list[Answer]) -> None:
    assert max(answer.error for answer in of_case) <= 1e-10
    assert max(answer.found for answer in of_case) == 0, "what is loaded is there"


@each(*SAVED)
def test_a_checkpoint_goes_on_on_other_devices_and_is_read_by_the_unsplit_model(of_case: list[Answer]) -> None:
    assert max(answer.error for answer in of_case) <= 1e-10
    assert max(answer.loss_error or 0.0 for answer in of_case) <= TOLERANCE
    assert all(answer.found for answer in of_case)


@each(*EVENTS)
def test_collectives_run_beside_the_computation(of_case: list[Answer], name: str) -> None:
    """Gathers begin before the first forward and are waited for inside it; reductions begin in the last backward."""
    for answer in of_case:
        seen: list[str] = answer.found
        first, begun = seen.index("F0"), [at for at, event in enumerate(seen) if event[0] in "FBIW"]
        gathers, gathered, reduces, reduced = (
            [at for at, event in enumerate(seen) if event == kind]
            for kind in ("gather", "gathered", "reduce", "reduced")
        )
        assert len(gathers) == len(gathered) > 0
        assert max(gathers) < first < min(gathered)
        assert max(gathered) < seen.index("end", first)
        assert len(reduces) == len(reduced) >= len(gathers)
        if "sums" in name:  # those of a backward are waited for in the next one
            assert len({sum(at < one for one in reduces) for at in begun}) > 2
            assert reduces[0] < reduced[0] < begun[-1]
            assert seen[-1] == "reduced", "the last ones are waited for after the last backward"
            continue
        assert min(reduces) > begun[-1], "no earlier than the last backward or weight gradient"
        assert min(reduced) > max(reduces)
        last_end = len(seen) - 1 - seen[::-1].index("end")
        assert min(reduced) > last_end
        if "split" not in name:
            inside = [at for at in reduces if at < last_end]
            assert len(inside) > len(reduces) / 2, "layer by layer, while the backward goes on"


@each(*GATHERS)
def test_parameters_are_gathered_under_the_layer_beside_and_freed_behind_their_own(
    of_case: list[Answer], name: str
) -> None:
    for answer in of_case:
        seen: list[str] = answer.found
        assert seen[-1] == "with []", "nothing is left"
        for event in seen:
            kind, *words = event.split(maxsplit=2)
            if kind == "layer":
                assert words[1] == f"with [{words[0]}]", "no other layer is whole meanwhile"
        kinds = {step[0][0] for step in _actions(seen)}
        assert kinds == ({"F", "I", "W"} if "split" in name else {"F", "B"})
        for step in _actions(seen):
            used = [int(event.split()[1]) for event in step if event.startswith("use")]
            if step[0][0] == "F":
                assert used == sorted(used)
                assert len(used) > 2
            else:
                assert used == sorted(used, reverse=True)
                assert bool(used) is (step[0][0] != "W")
            for earlier, number in pairwise(used):
                assert step.index(f"use {earlier}") < step.index(f"begin {number}") < step.index(f"free {earlier}")
                if step[0][0] == "F":
                    computing = next(at for at, event in enumerate(step) if event.startswith(f"layer {earlier} "))
                    assert step.index(f"begin {number}") < computing < step.index(f"free {earlier}")


def _actions(seen: list[str]) -> list[list[str]]:
    """Events by the action in which they are."""
    starts = [at for at, event in enumerate(seen) if event[0] in "FBIW" and event[1:].isdigit()]
    return [seen[start:end] for start, end in pairwise([*starts, len(seen)])]
