"""Stages that are alike are told of once, and every stage is told of."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import Submesh
from evenflow_torch.auto.stage_groups import stage_groups, summary


def made_stages(kinds, others=()):
    """Stages with layers, words and recomputed layers each; `others` are layers of the first that are unlike."""
    stages, first = [], 0
    for number, (layers, words, full) in enumerate(kinds):
        stages.append(
            SimpleNamespace(
                stage=number,
                first=first,
                end=first + layers,
                submesh=Submesh(1, 4),
                use=SimpleNamespace(words=words, main_words=words, other_words=() if number else others),
                recompute={"full": full} if full else {},
            )
        )
        first += layers
    return stages


def test_equal_stages_are_one_line():
    (group,) = stage_groups(made_stages([(8, "FSDP over 4", 2)] * 4))
    assert group.extent == "stages 0-3: layers 0-31, 8 each, on 1x4 devices each"
    assert group.how == "FSDP over 4; full recompute of 2 layers"


def test_a_sentence():
    assert summary(made_stages([(8, "FSDP over 4", 1)])) == "one stage: FSDP over 4; full recompute of 1 layer"
    assert summary(made_stages([(8, "FSDP over 4", 0), (7, "FSDP over 4", 0)])) == (
        "2 stages of 7-8 layers: FSDP over 4"
    )
    kinds = [(1, "one device", 0), (1, "one device", 0), (2, "FSDP over 4", 0)]
    assert summary(made_stages(kinds)) == (
        "3 stages: stages 0-1 of 1 layer: one device; stage 2 of 2 layers: FSDP over 4"
    )


def test_what_is_otherwise_is_said_once_for_stages_alike():
    kinds = [(20, "tensor parallel over 4", 3), (20, "tensor parallel over 4", 2), (20, "tensor parallel over 4", 0)]
    assert summary(made_stages(kinds, [("embed_tokens", "FSDP over 4")])) == (
        "3 stages of 20 layers: tensor parallel over 4, embed_tokens FSDP over 4, full recompute of 5 layers"
    )


def test_stages_that_do_not_follow_one_another_are_told_of_together():
    said = summary(made_stages([(1, word, 0) for word in "bababbca"]))
    assert said == "8 stages: stages 0, 2, … of 1 layer: b; stages 1, 3, … of 1 layer: a; 1 stage otherwise"


@given(st.lists(st.tuples(st.integers(1, 99), st.sampled_from("abcdefgh"), st.integers(0, 1)), min_size=2, max_size=64))
def test_a_sentence_stays_short(kinds):
    words = [
        (layers, f"tensor parallel over 4 in the node, {word} over 32 nodes", full) for layers, word, full in kinds
    ]
    said = summary(made_stages(words, [("embed_tokens", "FSDP over 4 in the node")]))
    assert len(said) <= 330
    assert said.startswith(f"{len(kinds)} stages")


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["a", "b"]), st.integers(0, 1)), min_size=1, max_size=8))
def test_groups_hold_every_stage_in_order(kinds):
    stages = made_stages(kinds)
    groups = stage_groups(stages)
    assert [stage for group in groups for stage in group.stages] == stages
    for group in groups:
        assert len({(one.end - one.first, one.use.words, str(one.recompute)) for one in group.stages}) == 1
