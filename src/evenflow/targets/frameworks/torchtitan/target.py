"""torchtitan: any cut with equally many stages on every rank, any order as CSV; recomputation by layer from 0.3 on."""

from functools import partial

from evenflow.language import _
from evenflow.model import FULL, KNOWN_KINDS, Abilities, Empty, Groups, Recomputation, Scope, SizeRule
from evenflow.predict.software import usual_software
from evenflow.targets.frameworks.torchtitan.degree_rules import degree_rules
from evenflow.targets.frameworks.torchtitan.editor import apply
from evenflow.targets.frameworks.torchtitan.logs import TORCHTITAN
from evenflow.targets.frameworks.torchtitan.reader import read
from evenflow.targets.frameworks.torchtitan.settings_file import is_settings, told_version
from evenflow.targets.frameworks.torchtitan.stated import stated_in_settings
from evenflow.targets.frameworks.torchtitan.values import NEW, OLD, TITLE
from evenflow.targets.frameworks.torchtitan.writer import write, write_degrees
from evenflow.targets.target import Target
from evenflow.targets.torch.order_csv import whole_backward_families


def _abilities(version: str) -> Abilities:
    by_layer = Recomputation(scope=Scope.LAYERS, kinds=KNOWN_KINDS)
    # 0.2 has a mode for all layers. Its selective modes are others: every k-th layer that a rank has, or operators
    # that no kind of evenflow names.
    for_all = Recomputation(scope=Scope.MODEL, kinds=(FULL,))
    return Abilities(
        schedules=whole_backward_families(),
        own_order=True,
        recomputation=(by_layer if version == NEW else for_all,),
        empty=Empty.ENDS,
        groups=Groups.ANY,
        sizes=(
            SizeRule(
                text=_("must be at least 2"),
                holds=lambda sizes, schedule: sizes.num_ranks >= 2,
                place="ranks",
            ),
        ),
    )


TARGET = Target(
    name="torchtitan",
    title=TITLE,
    versions=(OLD, NEW),
    checked_with="torchtitan 0.2.2, 0.3.0",
    degrees_checked_with="torchtitan 0.2.2, 0.3.0",
    page="torchtitan",
    abilities=_abilities,
    software=partial(usual_software, is_portable=True, overlaps_one_chunk=True),
    write=write,
    write_degrees=write_degrees,
    degree_rules=degree_rules,
    read=read,
    read_degrees=stated_in_settings,
    recognise=is_settings,
    apply=apply,
    told_version=told_version,
    logs=(TORCHTITAN,),
)
