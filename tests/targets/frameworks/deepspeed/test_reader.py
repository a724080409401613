"""Configurations of DeepSpeed and GPT-NeoX; `make check-deepspeed` compares them with DeepSpeed itself."""

import json

import pytest

from evenflow.errors import InputError
from evenflow.model import FULL
from evenflow.targets.frameworks.deepspeed.target import TARGET
from evenflow.targets.target import Baseline, GivenSizes

NEOX = """# GPT-NeoX 20B
{
  "pipe-parallel-size": 4,
  "model-parallel-size": 2,
  "num-layers": 44,
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 32,
  "checkpoint-activations": true,
  "checkpoint-num-layers": 1,
  "zero_optimization": {
    "stage": 1,
    "overlap_comm": True,
  },
}
"""
DEEPSPEED = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 16, "zero_optimization": {"stage": 1}}


def read(text: str, file: str = "20B.yml", **given: int) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, file, GivenSizes(**given))


def test_gpt_neox_counts_the_functions_beside_its_layers() -> None:
    """46 entries have "transformer" in their names: 12, 12, 11 and 11; the first and the last of them are functions."""
    baseline = read(NEOX)
    assert baseline.plan.layers == ((11, 12, 11, 10),)
    assert baseline.plan.recompute == {FULL: ((11, 12, 11, 10),)}
    assert (baseline.plan.schedule, baseline.plan.num_microbatches) == ("1f1b", 32)
    assert baseline.unknown == ()
    [note] = baseline.notes
    assert note.startswith("DeepSpeed before 0.12.5 cuts otherwise")
    assert TARGET.recognise(NEOX, "20B.yml")


@pytest.mark.parametrize(
    ("change", "layers", "full"),
    [
        (('"pipe-parallel-size": 4', '"pipe-parallel-size": 0'), ((44,),), ((44,),)),
        (
            ('"num-layers": 44', '"num-layers": 44, "pipe_partition_method": "type:TransformerLayer"'),
            ((11,) * 4,),
            None,
        ),
        (('"checkpoint-activations": true', '"checkpoint-activations": false'), ((11, 12, 11, 10),), ()),
        (('"checkpoint-activations": true,', ""), ((11, 12, 11, 10),), ()),
        (('"checkpoint-num-layers": 1,', ""), ((11, 12, 11, 10),), None),
        # Groups of 3: with the embedding and the function before the first layer; with the last layers and the tail.
        (('"checkpoint-num-layers": 1', '"checkpoint-num-layers": 3'), ((11, 12, 11, 10),), ((10, 12, 11, 9),)),
    ],
)
def test_what_decides_the_cut_and_the_recomputation(
    change: tuple[str, str], layers: object, full: tuple[object, ...] | None
) -> None:
    assert change[0] in NEOX
    plan = read(NEOX.replace(*change)).plan
    assert plan.layers == layers
    assert plan.recompute == ({FULL: layers if full is None else full} if full != () else {})


def test_groups_of_layers_are_said() -> None:
    notes = read(NEOX.replace('"checkpoint-num-layers": 1', '"checkpoint-num-layers": 3')).notes
    assert "layers recompute in groups of 3, which keep less than the plan says" in notes


@pytest.mark.parametrize(
    ("method", "layers"),
    [
        ("uniform", (11, 12, 12, 9)),
        ("type:^ParallelT.*pipe$", (11, 11, 11, 11)),
        ("type:transformer|embedding", (10, 12, 12, 10)),
    ],
)
def test_every_method_that_names_can_tell(method: str, layers: tuple[int, ...]) -> None:
    baseline = read(NEOX.replace('"num-layers"', f'"pipe-partition-method": "{method}", "num-layers"'))
    assert baseline.plan.layers == (layers,)
    assert any("before 0.12.5" in note for note in baseline.notes) == method.endswith("embedding")


def test_a_configuration_of_deepspeed_says_less() -> None:
    text = json.dumps(DEEPSPEED | {"pipeline": {"activation_checkpoint_interval": 1}})
    assert TARGET.recognise(text, "ds_config.json")
    baseline = read(text, "ds_config.json", num_layers=10, num_ranks=4)
    assert baseline.plan.layers == baseline.plan.recompute[FULL] == ((3, 3, 2, 2),)
    assert baseline.notes == (
        "the file does not say where the model is cut: the layers are dealt out evenly",
        "the head and the tail of the model are recomputed too, which is not in the plan",
    )
    assert read(json.dumps(DEEPSPEED), "ds_config.json", num_layers=10, num_ranks=4).plan.recompute == {}


def test_what_is_not_understood_is_named() -> None:
    text = NEOX.replace('"num-layers"', '"pipe-thing": 1,\n  "checkpoint-in-cpu": true,\n  "num-layers"')
    assert read(text).unknown == ("20B.yml, line 5: pipe_thing", "20B.yml, line 6: checkpoint_in_cpu")


@pytest.mark.parametrize(
    ("text", "file", "given", "message"),
    [
        (
            NEOX.replace("44", "3"),
            "a.yml",
            {},
            "a.yml, line 5: num_layers must be at least the number of ranks (4), got 3",
        ),
        (
            NEOX.replace("44", '"44"'),
            "a.yml",
            {},
            "a.yml, line 5: num_layers must be an integer from 1 to 100,000, got '44'",
        ),
        (
            NEOX.replace('"num-layers"', '"pipe-partition-method": "parameters", "num-layers"'),
            "a.yml",
            {},
            "must be uniform, or type: with a pattern that 4 entries have, such as Parallel",
        ),
        (
            NEOX.replace('"num-layers"', '"pipe-partition-method": "type:(a+)+", "num-layers"'),
            "a.yml",
            {},
            "must be uniform, or type: with a pattern",
        ),
        (
            NEOX.replace('"num-layers"', '"pipe-partition-method": 3, "num-layers"'),
            "a.yml",
            {},
            "must be a text that is not empty, got 3",
        ),
        (NEOX.replace("true", "1"), "a.yml", {}, "checkpoint_activations must be true or false, got 1"),
        (NEOX.replace("_steps", "_step"), "a.yml", {}, "add it, or give --microbatches"),
        ('{"gradient_accumulation_steps": "auto"}', "a.json", {"num_layers": 4, "num_ranks": 2}, "got 'auto'"),
        (
            json.dumps(DEEPSPEED),
            "a.json",
            {"num_layers": 4},
            "must have the field 'pipe_parallel_size'; add it, or give --ranks",
        ),
        (
            json.dumps(DEEPSPEED),
            "a.json",
            {"num_ranks": 4},
            "must have the field 'num_layers'; add it, or give --layers",
        ),
        (json.dumps(DEEPSPEED), "a.json", {"num_layers": 4, "num_ranks": 0}, "--ranks must be an integer from 1"),
        (json.dumps(DEEPSPEED | {"pipeline": []}), "a.json", {"num_layers": 4, "num_ranks": 2}, "must be an object"),
        (
            json.dumps(DEEPSPEED | {"pipeline": {"activation_checkpoint_interval": -1}}),
            "a.json",
            {"num_layers": 4, "num_ranks": 2},
            "a.json: pipeline.activation_checkpoint_interval must be an integer from 0 to 100,000, got -1",
        ),
        ("{", "a.json", {}, "cannot read a.json"),
    ],
)
def test_what_cannot_be_told_is_refused(text: str, file: str, given: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, file, **given)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n", "parallel_config: {pipeline_stage: 2}\n", "num_layers: 3\n"])
def test_other_files_are_not_recognised(text: str) -> None:
    assert not TARGET.recognise(text, "a.yml")
