"""MindFormers in PyNative mode: layers by their ids for every stage, and for every way to recompute."""

from collections.abc import Mapping

from evenflow.language import _
from evenflow.model import SELECT, Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text, nested
from evenflow.targets.degree_rules import (
    check_no_capacity,
    check_shares_gradients,
    context_shares_out,
    experts_in_a_copy,
)
from evenflow.targets.frameworks.mindformers_pynative.reader import is_configuration, read_plan, stated_in_configuration
from evenflow.targets.frameworks.mindformers_pynative.values import (
    PAIRED,
    SELECT_MODULE,
    abilities,
    apply_plan,
    pynative_values,
)
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules


def _write(plan: Plan, version: str) -> Written:
    batch = _(
        "set training.global_batch_size to {count} x data-parallel ranks x local_batch_size: it decides the number "
        "of microbatches",
        count=plan.num_microbatches,
    )
    return Written(pieces=(_piece(pynative_values(plan)),), notes=(batch, *_select_notes(plan), *_pair_notes(plan)))


def _piece(values: Mapping[str, object]) -> Piece:
    """Return the sections of values by dotted key."""
    return Piece(title=_("keys of the configuration YAML"), syntax="yaml", text=block_text(nested(values)))


def _select_notes(plan: Plan) -> tuple[str, ...]:
    if not any(map(any, plan.recompute.get(SELECT, ()))):
        return ()
    return (
        _("select_module names {module}; name the modules that select means in your layer file", module=SELECT_MODULE),
    )


def _pair_notes(plan: Plan) -> tuple[str, ...]:
    """Return which layers must have experts, where the first chunk has more layers than others of its rank."""
    count = plan.layers[0][0] - plan.layers[-1][0]
    if plan.schedule != PAIRED or not count:
        return ()
    return (
        _(
            "all layers but the first {count} must have experts (model.first_k_dense_replace): chunks of a rank with "
            "unequal numbers of these wait for each other for ever",
            count=count,
        ),
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_no_capacity(planned, title=TARGET.title)
    check_shares_gradients(planned, title=TARGET.title)
    degrees = planned.degrees
    copies = degrees.data if degrees.sharding is Sharding.NOTHING else planned.replicas
    values: dict[str, object] = {
        **(pynative_values(plan) if plan.num_ranks > 1 else {"parallelism.pipeline_parallel": 1}),
        "parallelism.tensor_parallel": degrees.tensor,
        "parallelism.context_parallel": degrees.context,
        "parallelism.expert_parallel": degrees.expert,
        "parallelism.data_parallel_shard": degrees.data // copies,
        "parallelism.sequence_parallel": degrees.sequence_parallel and degrees.tensor > 1,
        "parallelism.reshard_after_forward_policy": "always" if degrees.sharding is Sharding.PARAMETERS else "never",
        "training.local_batch_size": planned.microbatch,
        "training.global_batch_size": planned.global_batch,
    }
    start = _("start it on {devices} devices, node after node", devices=degrees.devices)
    tokens = _("the sequences of the dataset have {tokens} tokens", tokens=planned.sequence)
    return Written(pieces=(_piece(values),), notes=(*_select_notes(plan), *_pair_notes(plan), start, tokens))


def _degree_rules(version: str) -> DegreeRules:
    """Return what MindFormers can split here, which has the mesh of torchtitan. [MindFormers: `ParallelDims`]"""
    shared = (Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS)
    return DegreeRules(
        shardings=shared,
        pipeline_shardings=shared,
        splits_experts=False,
        rules=(
            DegreeRule(
                axis=Axis.TENSOR,
                text=_("must be 1 without sequence parallelism"),
                holds=lambda training: training.degrees.tensor == 1 or training.degrees.sequence_parallel,
            ),
            context_shares_out(),
            experts_in_a_copy(),
        ),
    )


TARGET = Target(
    name="mindformers-pynative",
    title="MindFormers PyNative",
    versions=("2.0.0",),
    checked_with="mindformers 2.1.0",
    page="mindformers-pynative",
    abilities=lambda version: abilities(),
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=_degree_rules,
    read=read_plan,
    read_degrees=stated_in_configuration,
    recognise=is_configuration,
    apply=apply_plan,
)
