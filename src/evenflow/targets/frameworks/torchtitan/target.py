"""torchtitan: any cut with equally many stages on every rank, any order as CSV; recomputation by layer from 0.3 on.

Data parallelism is FSDP: it always shares out the optimizer's state and gradients, and parameters where it gives them
up after the forward. It shares them out over data and context ranks; experts lie across these and tensor ranks.
"""

from collections.abc import Callable
from functools import partial

from evenflow.adapters.torchtitan import LAYER_KINDS
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Groups, Mtp, Recomputation, Scope, SizeRule
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.software import usual_software
from evenflow.predict.training import PRODUCTS, Sharding, Training
from evenflow.targets.degree_rules import (
    context_shares_out,
    copies_alone,
    experts_in_a_copy,
    untied_pipeline,
    whole_kv_heads,
)
from evenflow.targets.frameworks.torchtitan.editor import apply
from evenflow.targets.frameworks.torchtitan.logs import TORCHTITAN
from evenflow.targets.frameworks.torchtitan.reader import read
from evenflow.targets.frameworks.torchtitan.settings_file import is_settings, told_version
from evenflow.targets.frameworks.torchtitan.stated import stated_in_settings
from evenflow.targets.frameworks.torchtitan.values import BY_TOKENS, NEW, OLD, TITLE
from evenflow.targets.frameworks.torchtitan.writer import write, write_degrees
from evenflow.targets.target import Target
from evenflow.targets.torch.order_csv import whole_backward_families
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_SHARED = (Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS)


def _abilities(version: str) -> Abilities:
    by_layer = Recomputation(scope=Scope.LAYERS, kinds=LAYER_KINDS)
    # 0.2 has a mode for all layers, of which selective is also every k-th layer that a rank has: no kind says that.
    for_all = Recomputation(scope=Scope.MODEL, kinds=(FULL, PRODUCTS))
    return Abilities(
        schedules=whole_backward_families(),
        own_order=True,
        recomputation=(for_all if version == OLD else by_layer,),
        empty=Empty.ENDS,
        mtp=Mtp.NONE,
        groups=Groups.ANY,
        sizes=(
            SizeRule(
                text=_("must be at least 2"),
                holds=lambda sizes, schedule: sizes.num_ranks >= 2,
                place="ranks",
            ),
        ),
    )


def _degree_rules(version: str) -> DegreeRules:
    """Return what torchtitan can split.

    [torchtitan: `ParallelDims`, `Decoder.Config.update_from_config`, `parallelize_llama`]
    """
    shared = (whole_kv_heads(), untied_pipeline(), context_shares_out(), experts_in_a_copy())
    return DegreeRules(
        shardings=_SHARED,
        pipeline_shardings=_SHARED,
        splits_experts=version == OLD,
        rules=(*shared, *((_sequence(Axis.CONTEXT, _parts),) if version != OLD else _old_rules())),
    )


def _old_rules() -> tuple[DegreeRule, ...]:
    """Sequences are split in any case."""
    experts = DegreeRule(
        axis=Axis.EXPERT_TENSOR,
        text=lambda training: _("must be {number}", number=training.degrees.tensor),
        holds=lambda training: (
            training.model.experts is None
            or training.degrees.expert > 1
            or expert_tensor(training) == training.degrees.tensor
        ),
    )
    parts = _sequence(Axis.TENSOR, lambda training: 2 * training.degrees.tensor * training.degrees.context)
    return (parts, copies_alone(), experts)


def _sequence(axis: Axis, parts: Callable[[Training], int]) -> DegreeRule:
    return DegreeRule(
        axis=axis,
        text=lambda training: _(
            "must be such that {parts} divides the sequence of {tokens} tokens",
            parts=parts(training),
            tokens=training.sequence,
        ),
        holds=lambda training: training.sequence % parts(training) == 0,
    )


def _parts(training: Training) -> int:
    degrees = training.degrees
    split = degrees.tensor if degrees.sequence_parallel else 1
    return split * (2 * degrees.context if degrees.context > 1 else 1)


TARGET = Target(
    name="torchtitan",
    title=TITLE,
    versions=(OLD, BY_TOKENS, NEW),
    unchecked_versions=(BY_TOKENS,),
    checked_with="torchtitan 0.2.2, 0.3.0",
    degrees_checked_with="torchtitan 0.2.2, 0.3.0",
    page="torchtitan",
    abilities=_abilities,
    adapter_setting="LoRAConverter.Config(rank={rank})",
    software=partial(usual_software, is_portable=True, overlaps_one_chunk=True),
    write=write,
    write_degrees=write_degrees,
    degree_rules=_degree_rules,
    read=read,
    read_degrees=stated_in_settings,
    recognise=is_settings,
    apply=apply,
    told_version=told_version,
    logs=(TORCHTITAN,),
)
