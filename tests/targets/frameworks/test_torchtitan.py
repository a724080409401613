"""torchtitan: what each version can run."""

import pytest
from hypothesis import given

from evenflow.model import FULL, Plan
from evenflow.targets.frameworks.torchtitan import TARGET
from evenflow.targets.refusal import refusal
from tests.targets.torch.strategies import FAMILY_NAMES, plans

LOOPED = tuple(name for name in FAMILY_NAMES if name not in ("zbv", "v-half", "v-min", "1f1b-v", "dualpipe-v"))


@given(plans(families=LOOPED))
def test_the_newest_version_runs_any_recomputation(plan: Plan) -> None:
    assert refusal(plan, TARGET.abilities("0.3.0"), title=TARGET.title) is None


@pytest.mark.parametrize(
    ("recompute", "is_possible"),
    [
        ({}, True),
        ({"full": ((2, 3),)}, True),
        ({"full": ((2, 2),)}, False),
        ({"select": ((2, 3),)}, False),
    ],
)
def test_the_old_version_recomputes_all_layers_or_none(
    recompute: dict[str, tuple[tuple[int, int]]], is_possible: bool
) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 3),), recompute=recompute)
    assert (refusal(plan, TARGET.abilities("0.2.2"), title=TARGET.title) is None) == is_possible


def test_one_rank_has_no_pipeline() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),), recompute={FULL: ((1,),)})
    error = refusal(plan, TARGET.abilities("0.3.0"), title=TARGET.title)
    assert str(error) == "ranks must be at least 2 for torchtitan, got 1"


def test_versions() -> None:
    assert TARGET.version(None) == "0.3.0"
    assert TARGET.version("0.2.9") == "0.2.2"
