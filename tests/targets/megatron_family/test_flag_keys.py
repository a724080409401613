"""Flags of Megatron-LM as keys of YAML."""

import pytest

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.target import GivenSizes

CONFIG = """ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
MODEL_ARGS:
  --num-layers: 12
  --micro-batch-size: 4
  --global-batch-size: 32
  --tensor-model-parallel-size: 2
  --pipeline-model-parallel-size: 2
  --recompute-granularity: full
  --recompute-method: block
  --recompute-num-layers: 1
  --sequence-parallel: true
  --pp-layer-list: 1
TEST_TYPE: ckpt-resume
"""
SIZES = GivenSizes(num_microbatches=8)


def test_they_are_read() -> None:
    assert TARGET.read is not None
    baseline = TARGET.read(CONFIG, "model_config.yaml", SIZES)
    assert baseline.plan.layers == ((6, 6),)
    assert baseline.plan.recompute == {FULL: ((1, 1),)}
    assert [place.rpartition(" ")[2] for place in baseline.unknown] == ["pp_layer_list"]
    assert TARGET.recognise(CONFIG, "model_config.yaml")
    assert TARGET.read_degrees is not None
    stated = TARGET.read_degrees(CONFIG, "model_config.yaml")
    assert (stated.tensor, stated.pipeline, stated.global_batch, stated.sequence_parallel) == (2, 2, 32, True)


def test_no_layers_under_block_is_no_recomputation() -> None:
    assert TARGET.read is not None
    text = CONFIG.replace("recompute-num-layers: 1", "recompute-num-layers: 0")
    assert TARGET.read(text, "model_config.yaml", SIZES).plan.recompute == {}
    with pytest.raises(InputError, match="recompute_num_layers must be an integer from 1"):
        TARGET.read(text.replace("block", "uniform"), "model_config.yaml", SIZES)


def test_they_are_not_edited() -> None:
    assert TARGET.apply is not None
    with pytest.raises(InputError, match="this has flags as keys of YAML"):
        TARGET.apply(CONFIG, "model_config.yaml", Plan(schedule="1f1b", num_microbatches=8, layers=((6, 6),)))


def test_lists_may_stand_in_brackets() -> None:
    """The launcher of the functional tests takes the brackets off."""
    assert TARGET.read is not None
    start, _found, end = CONFIG.partition("  --recompute-granularity")
    text = f"{start}  --recompute-granularity: selective\n  --recompute-modules: MODULES\n{end.partition('1')[2]}"
    plain = TARGET.read(text.replace("MODULES", "layernorm moe_act"), "model_config.yaml", SIZES)
    assert plain.plan.used_kinds == ("layernorm+moe_act",)
    assert TARGET.read(text.replace("MODULES", '"[layernorm moe_act]"'), "model_config.yaml", SIZES) == plain
