"""MindFormers on a static graph: ``model_config.offset`` and the recompute lists of a training YAML."""

from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.mindformers.block import fragment
from evenflow.targets.mindformers.reader import is_training_yaml, read_plan
from evenflow.targets.mindformers.training_yaml import apply_plan
from evenflow.targets.mindformers.values import TITLE, abilities, environment
from evenflow.targets.target import Piece, Target, Written


def _write(plan: Plan, version: str) -> Written:
    piece = Piece(title=_("keys of the training YAML"), syntax="yaml", text=fragment(plan))
    return Written(pieces=(piece,), environment=environment(plan))


TARGET = Target(
    name="mindformers",
    title=TITLE,
    versions=("1.9.0",),
    checked_with="mindformers 1.9.0",
    page="mindformers",
    abilities=lambda version: abilities(),
    write=_write,
    read=read_plan,
    recognise=is_training_yaml,
    apply=lambda text, file, plan: apply_plan(text, file=file, plan=plan),
)
