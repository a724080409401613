"""MindFormers on a static graph: ``model_config.offset`` and the recompute lists of a training YAML."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.degree_rules import check_no_capacity, experts_among_data, experts_split_sequences, whole_kv_heads
from evenflow.targets.frameworks.mindformers.block import fragment
from evenflow.targets.frameworks.mindformers.logs import MINDFORMERS
from evenflow.targets.frameworks.mindformers.reader import is_training_yaml, read_plan, stated_in_yaml
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.frameworks.mindformers.values import TITLE, abilities, environment
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.rules import DegreeRules


def _write(plan: Plan, version: str) -> Written:
    piece = Piece(title=_("keys of the training YAML"), syntax="yaml", text=fragment(plan))
    return Written(pieces=(piece,), environment=environment(plan))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_no_capacity(planned, title=TITLE)
    degrees = planned.degrees
    if degrees.sharding is Sharding.PARAMETERS or planned.replicas > 1:
        rule = _("must be at most ZeRO-2 over all data ranks for {title}", title=TITLE)
        raise InputError(value=f"ZeRO-{degrees.sharding}", rule=rule, place=_("the plan"))
    values: dict[str, object] = {
        "parallel_config.data_parallel": degrees.data,
        "parallel_config.model_parallel": degrees.tensor,
        "parallel_config.context_parallel": degrees.context,
        "parallel_config.expert_parallel": degrees.expert,
        "parallel_config.use_seq_parallel": degrees.sequence_parallel and degrees.tensor > 1,
        "parallel.enable_parallel_optimizer": degrees.sharding is not Sharding.NOTHING,
        "parallel.parallel_optimizer_config.gradient_accumulation_shard": degrees.sharding is Sharding.GRADIENTS,
        "runner_config.batch_size": planned.microbatch,
        "model.model_config.seq_length": planned.sequence,
    }
    piece = Piece(title=_("keys of the training YAML"), syntax="yaml", text=fragment(plan, more=values))
    start = _("start it on {devices} devices, node after node", devices=degrees.devices)
    return Written(pieces=(piece,), environment=environment(plan), notes=(start,))


def _degree_rules(version: str) -> DegreeRules:
    """Return what MindFormers can split on a static graph. [MindFormers: `check_rules`, `FFNGroupedGEMM`]

    Its parallel optimizer shares out the optimizer's state, and gradients where it gathers them over microbatches.
    """
    shared = (Sharding.NOTHING, Sharding.OPTIMIZER, Sharding.GRADIENTS)
    return DegreeRules(
        shardings=shared,
        pipeline_shardings=shared,
        splits_experts=False,
        rules=(whole_kv_heads(), experts_split_sequences(), experts_among_data(with_tensor=True)),
    )


TARGET = Target(
    name="mindformers",
    title=TITLE,
    versions=("1.9.0",),
    checked_with="mindformers 1.9.0",
    page="mindformers",
    abilities=lambda version: abilities(),
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=_degree_rules,
    read=read_plan,
    read_degrees=stated_in_yaml,
    recognise=is_training_yaml,
    apply=lambda text, file, plan: apply_plan(text, file=file, plan=plan),
    logs=(MINDFORMERS,),
)
