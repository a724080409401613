"""The plan that settings of torchtitan ask for."""

import math
from collections.abc import Sequence
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.model import NONE, Plan, Sizes, looped, v_shaped
from evenflow.profiles.yaml_file import optional_section
from evenflow.ranges import LAYERS, MICROBATCHES, RANKS, Range
from evenflow.schedule import Schedule, order_lines, parse_schedule
from evenflow.targets.target import Baseline, GivenSizes
from evenflow.targets.torch.module_names import even_parts, layers_per_part
from evenflow.targets.torch.order_csv import family_of
from evenflow.targets.torch.schedule_names import ON_A_V, SINGLE, named_schedule, schedule_name
from evenflow.targets.torchtitan.checkpointing import Recomputed, recomputed_layers
from evenflow.targets.torchtitan.settings_file import settings_of_file

_SCHEDULE, _CSV = "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv"
_DEGREE, _PARTS = "pipeline_parallel_degree", "module_fqns_per_model_part"
_PER_STAGE = "pipeline_parallel_layers_per_stage"
_FIRST_LESS, _LAST_LESS = "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers"
_MICROBATCH, _COUNT = "pipeline_parallel_microbatch_size", "num_pp_microbatches"
_KNOWN = (
    _SCHEDULE,
    _CSV,
    _DEGREE,
    _PARTS,
    _PER_STAGE,
    _FIRST_LESS,
    _LAST_LESS,
    _MICROBATCH,
    _COUNT,
    "pipeline_parallel_expert_parallel_overlap",
)
_LESS = Range(least=0, most=LAYERS.most)


def read(text: str, file: str, given: GivenSizes) -> Baseline:
    """Return the plan of a TOML file or a saved configuration.

    Raises:
        InputError: text that is neither, a run without a pipeline, a cut whose layers are neither there nor given, or
            settings that torchtitan refuses.
    """
    top = settings_of_file(text, file)
    parallelism = optional_section(top, "parallelism")
    num_ranks = parallelism.integer(_DEGREE, RANKS) if _DEGREE in parallelism else given.num_ranks or 1
    if num_ranks < 2:
        raise InputError(
            value=num_ranks,
            rule=_("must be at least 2: without a pipeline there is no plan"),
            place=parallelism.place(_DEGREE),
        )
    num_microbatches = _microbatches(top, parallelism)
    name = schedule_name(parallelism.values.get(_SCHEDULE, "1F1B"), place=parallelism.place(_SCHEDULE))
    parts = _parts(top, parallelism, name, num_ranks, given)
    if len(parts) % num_ranks:
        rule = _("must be a multiple of the {num_ranks} ranks", num_ranks=num_ranks)
        raise InputError(value=len(parts), rule=rule, place=_("{place}, stages", place=parallelism.place(_PARTS)))
    sizes = Sizes(num_ranks=num_ranks, num_chunks=len(parts) // num_ranks, num_microbatches=num_microbatches)
    schedule = _schedule(parallelism, name, sizes)
    recomputed = recomputed_layers(top, parts, schedule)
    return Baseline(
        plan=_plan(parts, schedule, recomputed),
        unknown=(
            *(parallelism.place(key) for key in parallelism.values if key.startswith("pipeline") and key not in _KNOWN),
            *recomputed.unknown,
        ),
        notes=recomputed.notes,
    )


def _microbatches(top: Fields, parallelism: Fields) -> int:
    if _COUNT in parallelism:
        return parallelism.integer(_COUNT, MICROBATCHES)
    training = optional_section(top, "training")
    batch = training.integer("local_batch_size", MICROBATCHES) if "local_batch_size" in training else 8
    size = parallelism.integer(_MICROBATCH, MICROBATCHES) if _MICROBATCH in parallelism else 1
    if batch % size:
        raise InputError(
            value=batch,
            rule=_("must be a multiple of the {size} of {key}", size=size, key=_MICROBATCH),
            place=training.place("local_batch_size"),
        )
    return batch // size


def _parts(top: Fields, parallelism: Fields, name: str, num_ranks: int, given: GivenSizes) -> tuple[int, ...]:
    """Return the layers of every stage."""
    listed = parallelism.values.get(_PARTS)
    if listed is not None:
        return layers_per_part(listed, place=parallelism.place(_PARTS))
    num_layers = _num_layers(top, given)
    first, last = (parallelism.integer(key, _LESS) if key in parallelism else 1 for key in (_FIRST_LESS, _LAST_LESS))
    num_parts = num_ranks * (1 if name in SINGLE else 2)
    key = _SCHEDULE
    if parallelism.values.get(_PER_STAGE) is not None:
        key = _PER_STAGE
        num_parts = math.ceil((num_layers + first + last) / parallelism.integer(key, LAYERS))
        if num_parts % num_ranks or (num_parts == num_ranks) != (name in SINGLE):
            raise InputError(
                value=num_parts,
                rule=_(
                    "must make a number of stages that {name} has on {num_ranks} ranks", name=name, num_ranks=num_ranks
                ),
                place=parallelism.place(key),
            )
    counts = even_parts(num_layers=num_layers, num_parts=num_parts, first_less=first, last_less=last)
    if counts is None:
        raise InputError(
            value=num_parts,
            rule=_("must make no more stages than {num_layers} layers fill", num_layers=num_layers),
            place=parallelism.place(key),
        )
    return counts


def _num_layers(top: Fields, given: GivenSizes) -> int:
    model = optional_section(optional_section(top, "model_spec"), "model")
    layers = model.values.get("layers")
    found = len(layers) if isinstance(layers, list) else given.num_layers
    if found is None:
        raise InputError(
            value=None,
            rule=_("must be given, since {file} names only the model", file=top.file),
            place="--layers",
        )
    LAYERS.check(found, place=model.place("layers") if isinstance(layers, list) else "--layers")
    return found


def _schedule(parallelism: Fields, name: str, sizes: Sizes) -> Schedule:
    csv = parallelism.values.get(_CSV) or ""
    if not isinstance(csv, str):
        raise parallelism.error(_CSV, _("must be the name of a file"))
    if not csv:
        return named_schedule(name, sizes, place=parallelism.place(_SCHEDULE))
    path = Path(parallelism.file).parent / csv
    schedule = parse_schedule(read_text(path), name=name, place=str(path))
    if schedule.sizes != sizes:
        rule = _("must have the ranks, stages and microbatches of {file}", file=parallelism.file)
        found = f"{schedule.num_ranks}, {schedule.num_stages}, {schedule.num_microbatches}"
        raise InputError(value=found, rule=rule, place=str(path))
    if schedule.stage_ranks != _placement(name, sizes):
        rule = _("must place the stages as {name} does, which {file} names", name=name, file=parallelism.file)
        raise InputError(value=list(schedule.stage_ranks), rule=rule, place=str(path))
    return family_of(schedule)


def _placement(name: str, sizes: Sizes) -> tuple[int, ...]:
    if name in ON_A_V and sizes.num_chunks == 2:
        return v_shaped(num_ranks=sizes.num_ranks)
    return looped(num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks)


def _plan(parts: Sequence[int], schedule: Schedule, recomputed: Recomputed) -> Plan:
    table = schedule.stage_table
    kinds = {kind for stage in recomputed.kinds for kind in stage} - {NONE}
    return Plan(
        schedule=schedule.name,
        num_microbatches=schedule.num_microbatches,
        layers=tuple(tuple(parts[stage] for stage in row) for row in table.tolist()),
        recompute={
            kind: tuple(tuple(recomputed.kinds[stage].count(kind) for stage in row) for row in table.tolist())
            for kind in kinds
        },
        group_size=schedule.group_size,
        order=order_lines(schedule),
    )
