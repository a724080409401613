"""Arguments of PaddleFormers and strategies of Paddle; `make check-paddle` compares their cuts with Paddle itself."""

import json

import pytest

from evenflow.errors import InputError
from evenflow.model import FULL
from evenflow.targets.frameworks.paddle.target import TARGET
from evenflow.targets.target import Baseline, GivenSizes

FORMERS = """stage: SFT
pipeline_model_parallel_size: 4
virtual_pipeline_model_parallel_size: 2
gradient_accumulation_steps: 16
recompute_granularity: full
recompute_method: uniform
recompute_num_layers: 1
"""
STRATEGY = {"hybrid_configs": {"pp_degree": 4}, "pipeline_configs": {"accumulate_steps": 8}}


def read(text: str, file: str = "sft.yaml", *, num_layers: int = 32) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, file, GivenSizes(num_layers=num_layers))


def test_arguments_of_paddleformers() -> None:
    baseline = read(FORMERS)
    assert baseline.plan.layers == baseline.plan.recompute[FULL] == ((4,) * 4,) * 2
    assert (baseline.plan.schedule, baseline.plan.num_microbatches) == ("interleaved", 16)
    assert baseline.unknown == baseline.notes == ()
    assert TARGET.recognise(FORMERS, "sft.yaml")


def test_older_names() -> None:
    text = json.dumps(
        {
            "pipeline_parallel_degree": 4,
            "virtual_pp_degree": 2,
            "gradient_accumulation_steps": 4,
            "recompute": True,
            "no_recompute_layers": [3],
        }
    )
    baseline = read(text, "args.json")
    assert baseline.plan.schedule == "f-then-b"
    assert baseline.plan.recompute == {FULL: ((4,) * 4,) * 2}
    assert baseline.unknown == ("args.json: no_recompute_layers",)
    assert TARGET.recognise(text, "args.json")


@pytest.mark.parametrize(
    ("method", "num_layers", "layers"),
    [
        (None, 32, (8, 8, 8, 8)),
        (None, 33, (8, 9, 9, 7)),  # 36 entries, 9 each, of which one is the head and two are the tail
        ("uniform", 31, (7, 8, 9, 7)),  # 34 entries: 8, 8, 9, 9
        ("layer:DecoderLayer", 8, (2, 2, 2, 2)),
        ([0, 3, 5, 12], 32, (2, 2, 7, 21)),
        ("[0, 3, 5, 12, 35]", 32, (2, 2, 7, 21)),
    ],
)
def test_the_method_decides_the_cut(method: object, num_layers: int, layers: tuple[int, ...]) -> None:
    text = json.dumps(STRATEGY | ({} if method is None else {"pp_seg_method": method}))
    baseline = read(text, "strategy.json", num_layers=num_layers)
    assert baseline.plan.layers == (layers,)
    assert baseline.plan.schedule == "1f1b"
    assert baseline.plan.recompute == {}


def test_empty_layers_take_the_place_of_layers() -> None:
    baseline = read(FORMERS + "num_empty_layers_add_in_tail: 3\n", num_layers=29)
    assert baseline.plan.layers == ((4, 4, 4, 4), (4, 4, 4, 1))
    assert baseline.notes == ("empty layers are not in the plan: they take no time",)


def test_what_is_not_understood_is_named() -> None:
    text = FORMERS.replace("uniform", "block") + 'pipeline_parallel_config: "best_unbalanced_scheduler"\n'
    baseline = read(text)
    assert baseline.plan.recompute == {}
    assert baseline.unknown == (
        "sft.yaml, line 8: pipeline_parallel_config",
        "sft.yaml, line 6: recompute_method",
        "sft.yaml, line 7: recompute_num_layers",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FORMERS.replace(": 4", ": 2"), "ranks must be at least 3 with several chunks, got 2"),
        (FORMERS.replace("16", "5"), "microbatches must be the number of ranks (4), or at least twice that, got 5"),
        (FORMERS.replace("16", "x"), "line 4: gradient_accumulation_steps must be an integer"),
        (
            FORMERS.replace("gradient", "x"),
            "must have the field 'gradient_accumulation_steps'; add it, or give --microbatches",
        ),
        (
            FORMERS + "num_hidden_layers: 30\n",
            "num_hidden_layers must be a multiple of the 8 stages for Paddle, got 30",
        ),
        (FORMERS + "pp_seg_method: uniform\n", "must begin with layer: where ranks have several chunks, got 'uniform'"),
        (FORMERS + "pp_seg_method: [0, 4]\n", "must begin with layer: where ranks have several chunks, got [0, 4]"),
        (
            FORMERS + "pp_seg_method: even\n",
            "must be uniform, a list of cuts, or layer: and names of classes, got 'even'",
        ),
        (FORMERS + "pp_seg_method: 3\n", "must be uniform, a list of cuts, or layer: and names of classes, got 3"),
        (FORMERS.replace(": 2", ": 1") + "pp_seg_method: [0, 9, 4, 12]\n", "a rising number for each rank"),
        (
            FORMERS.replace(": 2", ": 1") + "pp_seg_method: [0, 4, 9, 12, 30]\n",
            "no other but 35, the length of the list",
        ),
        (FORMERS.replace(": 2", ": 1") + "pp_seg_method: [0, 4]\n", "a rising number for each rank"),
        (FORMERS.replace(": 2", ": 1") + "pp_seg_method: '[0, a'\n", "cannot read"),
        (FORMERS + "recompute: 3\n", "recompute must be true or false, got 3"),
    ],
)
def test_what_cannot_be_told_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "a: [", "pipeline_model_parallel_size: 4\n", "parallel_config: {}\n"])
def test_other_files_are_not_recognised(text: str) -> None:
    assert not TARGET.recognise(text, "a.yml")
