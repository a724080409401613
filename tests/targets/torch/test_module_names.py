"""Modules of every stage by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow.targets.stages import stages_of
from evenflow.targets.torch.module_names import ModuleNames, even_parts, layers_per_part, names_per_part
from tests.targets.torch.strategies import plans

NAMES = ModuleNames(first=("tok_embeddings",), last=("norm", "output"))
HUGGING_FACE = ModuleNames(
    first=("model.embed_tokens",),
    last=("model.norm", "lm_head"),
    layers="model.layers.",
    everywhere=("model.rotary_emb",),
)


@given(plans(), st.sampled_from([NAMES, HUGGING_FACE]))
def test_what_is_written_is_read_back(plan: Plan, names: ModuleNames) -> None:
    stages = stages_of(plan, schedule_of(plan).stage_ranks)
    parts = names_per_part(stages, names)
    assert layers_per_part(parts, place="file") == tuple(len(stage.layers) for stage in stages)


def test_ends_and_modules_of_all_stages() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1, 2),))
    assert names_per_part(stages_of(plan, (0, 1)), HUGGING_FACE) == [
        ["model.embed_tokens", "model.layers.0", "model.rotary_emb"],
        ["model.layers.1", "model.layers.2", "model.rotary_emb", "model.norm", "lm_head"],
    ]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (None, "must be a list of lists of module names"),
        ([], "must be a list of lists of module names"),
        (["layers.0"], "must be a list of lists of module names"),
        ([["layers.0", 1]], "must be a list of lists of module names"),
        ([["tok_embeddings"], ["norm"]], "must have every layer once"),
        ([["layers.0", "layers.2"]], "must have every layer once"),
        ([["layers.1"], ["layers.0"]], "must have every layer once"),
        ([["layers.0"], ["layers.0"]], "must have every layer once"),
        ([["layers.99999999999999999999"]], "must have every layer once"),
    ],
)
def test_what_is_no_cut_is_refused(value: object, rule: str) -> None:
    with pytest.raises(InputError) as error:
        layers_per_part(value, place="file: key")
    assert rule in str(error.value)


@given(st.integers(1, 100), st.integers(1, 12), st.integers(0, 4), st.integers(0, 4))
def test_even_parts_differ_by_one_beside_the_ends(layers: int, parts: int, first: int, last: int) -> None:
    counts = even_parts(num_layers=layers, num_parts=parts, first_less=first, last_less=last)
    if counts is not None and parts > 1:
        weighed = [counts[0] + first, *counts[1:-1], counts[-1] + last]
        assert sum(counts) == layers
        assert max(weighed) - min(weighed) <= 1
        assert min(counts) >= 0
