"""torch.distributed.pipelining itself: the order of work as CSV; stages and recomputation are the user's own code."""

import json
from functools import partial

from evenflow.language import _
from evenflow.model import KNOWN_KINDS, Abilities, Empty, Groups, Plan, Recomputation, Scope
from evenflow.predict.software import usual_software
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.target import Piece, Target, Written
from evenflow.targets.torch.order_csv import FILE_NAME, csv_order, order_piece, runtime_notes, whole_backward_families

_TITLE = "torch.distributed.pipelining"


def _abilities(version: str) -> Abilities:
    return Abilities(
        schedules=whole_backward_families(),
        own_order=True,
        recomputation=(Recomputation(scope=Scope.LAYERS, kinds=KNOWN_KINDS),),
        empty=Empty.ANY,
        groups=Groups.ANY,
    )


def _write(plan: Plan, version: str) -> Written:
    schedule = csv_order(plan)
    stages = stages_of(plan, schedule.stage_ranks)
    ids = layers_by_kind(stages)
    tables = {
        "STAGE_RANKS": [stage.rank for stage in stages],
        "STAGE_LAYERS": [[stage.layers.start, stage.layers.stop] for stage in stages],
        "RECOMPUTED": {kind: list(layers) for kind, layers in ids.items()},
    }
    comments = {
        "STAGE_RANKS": "the rank of every stage",
        "STAGE_LAYERS": "its layers: the first one, and the one after its last",
        "RECOMPUTED": "layers that are recomputed, by kind",
    }
    text = "".join(f"{name} = {json.dumps(value)}  # {comments[name]}\n" for name, value in tables.items())
    notes = (
        _(
            "build a PipelineStage for each stage, give the stages of a rank to _PipelineScheduleRuntime with "
            "n_microbatches={count}, and call its _load_csv({file!r})",
            count=plan.num_microbatches,
            file=FILE_NAME,
        ),
        *runtime_notes(schedule),
    )
    piece = Piece(title=_("stages, for your own code that builds them"), syntax="python", text=text)
    return Written(pieces=(order_piece(schedule), piece), notes=notes)


TARGET = Target(
    name="torch",
    title=_TITLE,
    versions=("2.13",),
    checked_with="torch 2.13.0",
    page="torch",
    abilities=_abilities,
    software=partial(usual_software, is_portable=True, overlaps_one_chunk=True),
    write=_write,
)
