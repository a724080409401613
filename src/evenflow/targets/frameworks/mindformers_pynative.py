"""MindFormers in PyNative mode: layers by their ids for every stage, and for every way to recompute."""

from evenflow.export.yaml_edit import entry_lines
from evenflow.language import _
from evenflow.model import SELECT, Plan
from evenflow.predict.training import Sharding
from evenflow.targets.degree_rules import context_shares_out, experts_in_a_copy
from evenflow.targets.mindformers_pynative.reader import is_configuration, read_plan
from evenflow.targets.mindformers_pynative.values import SELECT_MODULE, abilities, apply_plan, pynative_values
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules


def _write(plan: Plan, version: str) -> Written:
    tree: dict[str, dict[str, object]] = {}
    for key, value in pynative_values(plan).items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    lines = [line for name, values in tree.items() for line in entry_lines(name, values)]
    notes = [
        _(
            "set training.global_batch_size to {count} x data-parallel ranks x local_batch_size: it decides the number "
            "of microbatches",
            count=plan.num_microbatches,
        )
    ]
    if any(map(any, plan.recompute.get(SELECT, ()))):
        notes.append(
            _(
                "select_module names {module}; name the modules that select means in your layer file",
                module=SELECT_MODULE,
            )
        )
    piece = Piece(title=_("keys of the configuration YAML"), syntax="yaml", text="\n".join(lines) + "\n")
    return Written(pieces=(piece,), notes=tuple(notes))


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
    degree_rules=_degree_rules,
    read=read_plan,
    recognise=is_configuration,
    apply=apply_plan,
)
