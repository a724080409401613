"""NeMo AutoModel: any cut with equally many stages on every rank, any order as CSV; recomputation of all layers."""

from functools import partial

from evenflow.language import _
from evenflow.model import FULL, Abilities, Groups, Recomputation, Scope, SizeRule
from evenflow.predict.software import usual_software
from evenflow.predict.training import Sharding
from evenflow.targets.degree_rules import (
    context_shares_out,
    copies_alone,
    experts_in_a_copy,
    untied_pipeline,
    whole_kv_heads,
)
from evenflow.targets.frameworks.nemo_automodel.editor import apply
from evenflow.targets.frameworks.nemo_automodel.reader import is_recipe, read, stated_in_recipe
from evenflow.targets.frameworks.nemo_automodel.writer import TITLE, write, write_degrees
from evenflow.targets.target import Target
from evenflow.targets.torch.order_csv import whole_backward_families
from evenflow.tune.rules import DegreeRules


def _abilities(version: str) -> Abilities:
    return Abilities(
        schedules=whole_backward_families(),
        own_order=True,
        recomputation=(Recomputation(scope=Scope.MODEL, kinds=(FULL,)),),
        groups=Groups.ANY,
        sizes=(
            SizeRule(text=_("must be at least 2"), holds=lambda sizes, schedule: sizes.num_ranks >= 2, place="ranks"),
            SizeRule(
                text=_("must be at least as many as ranks"),
                holds=lambda sizes, schedule: sizes.num_microbatches >= sizes.num_ranks,
            ),
        ),
    )


def _degree_rules(version: str) -> DegreeRules:
    """Return what its strategies can split: FSDP2, or DDP alone. [NeMo AutoModel: `mesh_utils`, `parallelizer`]"""
    shared = (Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS)
    return DegreeRules(
        shardings=shared,
        pipeline_shardings=shared,
        splits_experts=False,
        rules=(whole_kv_heads(), untied_pipeline(), context_shares_out(), copies_alone(), experts_in_a_copy()),
    )


TARGET = Target(
    name="nemo-automodel",
    title=TITLE,
    versions=("0.7.0",),
    checked_with="nemo-automodel 0.7.0",
    page="nemo-automodel",
    abilities=_abilities,
    frozen_parts="model.embed_tokens, model.layers.0 to model.layers.{last}",
    adapter_setting="peft.dim: {rank}",
    software=partial(usual_software, is_portable=True, overlaps_one_chunk=True),
    write=write,
    write_degrees=write_degrees,
    degree_rules=_degree_rules,
    read=read,
    read_degrees=stated_in_recipe,
    recognise=is_recipe,
    apply=apply,
)
