"""Layers of bytes and of patches in one row: whose tokens each has, what they learn and keep, what stages send."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from evenflow.model import FULL
from evenflow.predict.activations import boundary_bytes, layer_activations
from evenflow.predict.end_work import head_passes
from evenflow.predict.half_blocks import halves
from evenflow.predict.held import Held
from evenflow.predict.layer_work import layer_passes, message_bytes
from evenflow.predict.parameters import head_parameters, layer_parameters
from evenflow.predict.passes import with_sizes_of
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import LayerKind, Patches
from evenflow.predict.work import Operators
from tests.predict.trainings import TOPOLOGY, training
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

SEQUENCE, SIZE, ITEM, PARTS = 240, 6, 2, 2
BYTE, PATCH = 48, 96
"""Hidden sizes."""
COUNT = SEQUENCE // SIZE
READ = read(SMALL_CONFIGS["blt"]).model
MODEL = replace(READ, patches=Patches(size=SIZE))
JOB = training(model=MODEL, degrees=Degrees(), sequence=SEQUENCE, software=Software(fused_attention=False))
FIRST, MAKING, *BETWEEN, PROJECTING, LAST = MODEL.kinds


def flops(kind: LayerKind, job: Training = JOB) -> float:
    return sum(work.flops for work in layer_passes(job, kind).forward if isinstance(work, Operators))


def block(tokens: int, hidden: int, ffn: int) -> int:
    """The operations of attention, whose keys have half of the heads, and of a gated MLP."""
    return 2 * tokens * (3 * hidden * hidden + 2 * tokens * hidden + 3 * hidden * ffn)


def test_layers_of_patches_have_as_many_tokens_as_there_are_patches() -> None:
    assert flops(FIRST) == block(SEQUENCE, BYTE, 80)
    assert {flops(kind) for kind in BETWEEN} == {block(COUNT, PATCH, 160)}
    twice = replace(JOB, model=replace(MODEL, patches=Patches(size=2 * SIZE)))
    assert flops(BETWEEN[0], twice) == block(COUNT // 2, PATCH, 160)


@pytest.mark.parametrize(
    ("kind", "plain", "asking", "seen", "projected"),
    [(MAKING, 80, PARTS * COUNT, SEQUENCE, BYTE), (PROJECTING, 112, SEQUENCE, PARTS * COUNT, PATCH),
     (LAST, 112, SEQUENCE, PARTS * COUNT, 0)],
)  # fmt: skip
def test_tokens_and_parts_of_patches_see_each_other(
    kind: LayerKind, plain: int, asking: int, seen: int, projected: int
) -> None:
    """Queries and outputs of those that ask, keys and values of those that are seen, and parts of new patches."""
    products = asking * 2 * BYTE * BYTE + seen * BYTE * BYTE + COUNT * projected * PARTS * BYTE
    assert flops(kind) - block(SEQUENCE, BYTE, plain) == 2 * (products + asking * seen * 2 * BYTE)
    learned = 3 * BYTE * BYTE + 2 * BYTE + projected * PARTS * BYTE
    own = 3 * BYTE * BYTE + 3 * BYTE * plain + 2 * BYTE
    assert layer_parameters(JOB, kind).dense == own + learned


def test_sizes_are_those_of_a_layer_however_often_they_are_asked_for() -> None:
    once = with_sizes_of(JOB, BETWEEN[0])
    assert once.sequence == COUNT
    assert with_sizes_of(once, BETWEEN[0]) == once


def test_stages_send_bytes_and_patches_where_layers_behind_need_both() -> None:
    of_bytes, of_patches = ITEM * SEQUENCE * BYTE, ITEM * COUNT * PATCH
    sent: Callable[[LayerKind], int] = lambda kind: message_bytes(with_sizes_of(JOB, kind))  # noqa: E731
    assert sent(FIRST) == of_bytes == message_bytes(JOB)
    assert {sent(kind) for kind in (MAKING, *BETWEEN, PROJECTING, LAST)} == {of_bytes + of_patches}
    assert boundary_bytes(JOB) == of_bytes + of_patches


def test_layers_behind_patches_keep_them_where_all_else_is_computed_again() -> None:
    parts = ITEM * PARTS * COUNT * BYTE
    assert layer_activations(JOB, LAST, kind=FULL) == {Held.NORMS: ITEM * SEQUENCE * BYTE, Held.ATTENTION: parts}
    assert layer_activations(JOB, BETWEEN[0], kind=FULL) == {Held.NORMS: ITEM * COUNT * PATCH}


def test_what_chooses_patches_is_in_front_and_never_trained() -> None:
    """Two layers over all bytes, an embedding and an output layer, without gradients."""
    chooser = READ.patches.chooser if READ.patches else None
    job = replace(JOB, model=READ)
    assert chooser is not None
    hidden, ffn = chooser.hidden, chooser.ffn
    layer = 3 * hidden * hidden + 3 * hidden * ffn + 2 * hidden
    assert head_parameters(job).frozen == 2 * layer + hidden + 2 * hidden * chooser.vocabulary
    assert head_parameters(JOB).frozen == 0
    added = [len(head_passes(one).backward) for one in (job, JOB)]
    assert added[0] == added[1]
    forward = [sum(w.flops for w in head_passes(one).forward if isinstance(w, Operators)) for one in (job, JOB)]
    assert forward[0] - forward[1] == 2 * block(SEQUENCE, hidden, ffn) + 2 * SEQUENCE * hidden * chooser.vocabulary


@pytest.mark.parametrize("name", ["blt", "reformer", "xlnet"])
def test_halves_of_a_block_are_the_whole_one_together(name: str) -> None:
    model = read(SMALL_CONFIGS[name]).model
    job = replace(JOB, model=model)
    for kind in dict.fromkeys(model.kinds):
        both = halves(kind)
        assert sum(flops(half, job) for half in both) == flops(kind, job)
        assert sum(layer_parameters(job, half).dense for half in both) == layer_parameters(job, kind).dense


def test_memory_of_ranks_adds_up() -> None:
    prediction = predict(replace(JOB, model=READ, degrees=Degrees(pipeline=3)), TOPOLOGY)
    for rank, memory in enumerate(prediction.memory):
        assert memory.allocated_bytes == prediction.simulation.peak_memory_bytes[rank]
