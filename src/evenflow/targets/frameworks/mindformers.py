"""MindFormers on a static graph: ``model_config.offset`` and the recompute lists of a training YAML."""

from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.targets.degree_rules import experts_among_data, experts_split_sequences, whole_kv_heads
from evenflow.targets.mindformers.block import fragment
from evenflow.targets.mindformers.reader import is_training_yaml, read_plan
from evenflow.targets.mindformers.training_yaml import apply_plan
from evenflow.targets.mindformers.values import TITLE, abilities, environment
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.rules import DegreeRules


def _write(plan: Plan, version: str) -> Written:
    piece = Piece(title=_("keys of the training YAML"), syntax="yaml", text=fragment(plan))
    return Written(pieces=(piece,), environment=environment(plan))


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
    degree_rules=_degree_rules,
    read=read_plan,
    recognise=is_training_yaml,
    apply=lambda text, file, plan: apply_plan(text, file=file, plan=plan),
)
