"""The order and the plan that a framework on torch.distributed.pipelining is asked for by its settings."""

from collections.abc import Collection, Sequence
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.model import NONE, Plan, Sizes, looped, v_shaped
from evenflow.schedule import Schedule, family_of, order_lines, parse_schedule
from evenflow.targets.torch.schedule_names import named_schedule, schedule_name


def asked_name(settings: Fields, key: str) -> str:
    """Return the name of PyTorch's schedule under `key`, by default 1F1B; raises InputError for another name."""
    return schedule_name(settings.values.get(key) or "1F1B", place=settings.place(key))


def asked_order(settings: Fields, *, key: str, csv_key: str, sizes: Sizes, on_a_v: Collection[str]) -> Schedule:
    """Return the order of the schedule under `key`, or that in the file under `csv_key`.

    A relative path starts in the folder of the settings. The framework places the stages of the schedules `on_a_v` on a
    V, and those of all others in a loop.

    Raises:
        InputError: a schedule that does not have these sizes, a file that cannot be read or does not fit.
    """
    name = asked_name(settings, key)
    csv = settings.values.get(csv_key) or ""
    if not isinstance(csv, str):
        raise settings.error(csv_key, _("must be the name of a file"))
    place = str(Path(settings.file).parent / csv) if csv else settings.place(key)
    if csv:
        schedule = family_of(parse_schedule(read_text(place), name=name, place=place))
        if schedule.sizes != sizes:
            raise InputError(
                value=f"{schedule.num_ranks}, {schedule.num_stages}, {schedule.num_microbatches}",
                rule=_("must have the ranks, stages and microbatches of {file}", file=settings.file),
                place=place,
            )
    else:
        schedule = named_schedule(name, sizes, place=place)
    is_on_v = name in on_a_v and sizes.num_chunks == 2
    loop = looped(num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks)
    if schedule.stage_ranks != (v_shaped(num_ranks=sizes.num_ranks) if is_on_v else loop):
        rule = _("must place the stages as {name} does, which {file} names", name=name, file=settings.file)
        raise InputError(value=list(schedule.stage_ranks), rule=rule, place=place)
    return schedule


def asked_plan(parts: Sequence[int], schedule: Schedule, kinds: Sequence[Sequence[str]]) -> Plan:
    """Return the plan of stages with these numbers of layers, whose layers are under these kinds."""
    rows = schedule.stage_table.tolist()
    return Plan(
        schedule=schedule.name,
        num_microbatches=schedule.num_microbatches,
        layers=tuple(tuple(parts[stage] for stage in row) for row in rows),
        recompute={
            kind: tuple(tuple(kinds[stage].count(kind) for stage in row) for row in rows)
            for kind in sorted({kind for stage in kinds for kind in stage} - {NONE})
        },
        group_size=schedule.group_size,
        order=order_lines(schedule),
    )


def chunks_of(parts: Sequence[int], num_ranks: int, *, place: str) -> int:
    """Return the stages of every rank; raises InputError for parts that ranks do not share equally."""
    if len(parts) % num_ranks:
        rule = _("must be a multiple of the {num_ranks} ranks", num_ranks=num_ranks)
        raise InputError(value=len(parts), rule=rule, place=_("{place}, stages", place=place))
    return len(parts) // num_ranks
