"""Layers that compute their inputs again from their outputs, and attention in chunks: work, memory and messages."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.model import FULL, NONE
from evenflow.predict.activations import layer_activations
from evenflow.predict.held import Held
from evenflow.predict.layer_parts import ChunkedAttention
from evenflow.predict.layer_work import layer_passes, message_bytes
from evenflow.predict.limits.checks import check_training
from evenflow.predict.prediction import predict
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Software
from evenflow.predict.work import Operators, Spent
from tests.predict.trainings import DEVICE, TOPOLOGY, training
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

SEQUENCE, ITEM, PLACE = 512, 2, 8
MODEL = read({**SMALL_CONFIGS["reformer"], "num_hashes": 3, "axial_pos_shape": [16, 32]}).model
HASHED, LOCAL = MODEL.kinds[:2]
JOB = training(model=MODEL, degrees=Degrees(), sequence=SEQUENCE)


def test_a_layer_keeps_hashes_alone_whatever_is_computed_again() -> None:
    for kind in (NONE, "select", FULL):
        assert layer_activations(JOB, LOCAL, kind=kind) == {}
        assert layer_activations(JOB, HASHED, kind=kind) == {Held.ATTENTION: PLACE * SEQUENCE * 4 * 3}


def test_backwards_run_forwards_again_whatever_the_kind() -> None:
    layers = priced_network(JOB, TOPOLOGY).layers
    kept = priced_network(replace(JOB, model=replace(MODEL, reversible=False)), TOPOLOGY).layers
    for reversible, usual in zip(layers, kept, strict=True):
        assert {spending.total_ns for spending in reversible.backward.values()} == {usual.backward[FULL].total_ns}
        assert reversible.forward.total_ns == usual.forward.total_ns


@pytest.mark.parametrize(("kind", "chunk", "seen"), [(HASHED, 64, 2 * 64 * 3), (LOCAL, 64, 2 * 64)])
def test_a_token_sees_its_chunk_and_the_one_before_in_every_round(kind, chunk, seen) -> None:
    """Nothing is skipped: a chunk is computed whole."""
    width = 4 * 12

    def scores(sequence: int) -> float:
        works = layer_passes(replace(JOB, sequence=sequence, software=Software()), kind).forward
        return sum(work.flops for work in works if isinstance(work, Operators) and work.spent is Spent.ATTENTION)

    assert scores(SEQUENCE) == 2 * SEQUENCE * seen * 2 * width
    assert scores(chunk) == 2 * chunk * chunk * 2 * width  # one chunk alone, without hashes


def test_hashes_are_found_once_without_gradients() -> None:
    """As many as twice the chunks, half of them the opposite directions of the others. [arXiv:2001.04451, §2]"""
    passes = layer_passes(JOB, HASHED)
    found = [work for work in passes.unkept if isinstance(work, Operators)]
    assert sum(work.flops for work in found) == 2 * SEQUENCE * 4 * 12 * 3 * (2 * SEQUENCE // 64) // 2
    assert layer_passes(replace(JOB, sequence=64), HASHED).unkept == ()


def test_many_hashes_have_two_factors() -> None:
    long = ChunkedAttention(length=64, around=1, hashes=1, longest=524_288)
    assert long.rotated(4096) == 128 // 2
    assert long.rotated(8192) == (16 + 16) // 2  # 256 are more than twice the root of the chunks of the longest one
    assert long.rotated(16_384) == (16 + 32) // 2
    assert replace(long, buckets=(64, 128)).rotated(16_384) == (64 + 128) // 2


def test_stages_send_both_streams_and_memory_of_ranks_adds_up() -> None:
    assert message_bytes(JOB) == ITEM * SEQUENCE * 2 * 64
    prediction = predict(replace(JOB, degrees=Degrees(pipeline=3)), TOPOLOGY)
    for rank, memory in enumerate(prediction.memory):
        assert memory.allocated_bytes == prediction.simulation.peak_memory_bytes[rank]


def test_sequences_are_as_long_as_rows_and_columns_say() -> None:
    with pytest.raises(InputError, match="must be 512: positions of the model are rows and columns of so many"):
        check_training(replace(JOB, sequence=256), DEVICE)
    plain = replace(JOB, sequence=8192, model=read({**SMALL_CONFIGS["reformer"], "axial_pos_embds": False}).model)
    with pytest.raises(InputError, match="must be at most the 4,096 positions that the model learns"):
        check_training(plain, DEVICE)


def test_what_is_taken_for_granted_is_said() -> None:
    notes = " ".join(read(SMALL_CONFIGS["reformer"]).notes)
    assert "layers compute their inputs again from their outputs" in notes
