"""Configurations of PaddleFleetX."""

import pytest

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT
from evenflow.predict.training import Sharding
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.frameworks.paddle.target import TARGET
from evenflow.targets.registry import all_targets
from evenflow.targets.target import Baseline, GivenSizes

CONFIG = """_base_: ./base.yaml
Global:
  global_batch_size:
  local_batch_size: 64
  micro_batch_size: 2
Model:
  num_layers: 96
  use_recompute: True
  recompute_granularity: core_attn
  no_recompute_layers:
  virtual_pp_degree: 1
Distributed:
  dp_degree:
  mp_degree: 8
  pp_degree: 16
  sharding:
    sharding_degree: 1
    sharding_stage: 1
"""


def read(text: str) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, "gpt.yaml", GivenSizes())


def test_a_configuration() -> None:
    baseline = read(CONFIG)
    plan = baseline.plan
    assert plan.layers == plan.recompute["core_attn"] == ((6,) * 16,)
    assert (plan.schedule, plan.num_microbatches) == ("1f1b", 32)
    assert baseline.unknown == ("gpt.yaml: _base_",)
    assert baseline.notes == ()
    assert in_offered_kinds(baseline, (FULL, SELECT)).plan.recompute == {SELECT: plan.layers}
    assert in_offered_kinds(baseline, (FULL, SELECT)).unknown == baseline.unknown
    place = next(place for place in in_offered_kinds(baseline, (FULL,)).unknown if place != baseline.unknown[0])
    assert place.endswith(": recompute_granularity")
    assert [target.name for target in all_targets().values() if target.recognise(CONFIG, "gpt.yaml")] == ["paddle"]


def test_degrees() -> None:
    assert TARGET.read_degrees is not None
    stated = TARGET.read_degrees(CONFIG, "gpt.yaml")
    assert (stated.tensor, stated.pipeline, stated.microbatch, stated.sharding) == (8, 16, 2, Sharding.NOTHING)


def test_chunks_and_layers_that_do_not_divide() -> None:
    plan = read(CONFIG.replace("core_attn", "full").replace("virtual_pp_degree: 1", "virtual_pp_degree: 2")).plan
    assert plan.layers == plan.recompute[FULL] == ((3,) * 16,) * 2
    assert plan.schedule == "interleaved"
    uneven = read(CONFIG.replace("num_layers: 96", "num_layers: 97")).plan
    assert uneven.layers == ((5, *(6,) * 11, *(7,) * 3, 5),)  # 100 entries, with a head and two at the end


def test_batches_that_do_not_divide() -> None:
    with pytest.raises(InputError, match=r"local_batch_size must be a multiple of the microbatch \(2\), got 63"):
        read(CONFIG.replace("64", "63"))
