"""NeMo AutoModel: any cut with equally many stages on every rank, any order as CSV; recomputation of all layers."""

from evenflow.language import _
from evenflow.model import FULL, Abilities, Groups, Recomputation, Scope, SizeRule
from evenflow.targets.nemo_automodel.reader import is_recipe, read
from evenflow.targets.nemo_automodel.writer import TITLE, write
from evenflow.targets.target import Target
from evenflow.targets.torch.order_csv import whole_backward_families


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


TARGET = Target(
    name="nemo-automodel",
    title=TITLE,
    versions=("0.7.0",),
    checked_with="nemo-automodel 0.7.0",
    page="nemo-automodel",
    abilities=_abilities,
    write=write,
    read=read,
    recognise=is_recipe,
)
