"""Options that several verbs share, and how their values are read."""

from pathlib import Path
from typing import Any

import click

from evenflow import ranges
from evenflow.cli.shared.numbers import Number, as_number
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import chunk_count, default_family, family_name
from evenflow.solve.order.searcher import SEARCHED
from evenflow.torch_model.optimizers import OPTIMIZERS
from evenflow.units import parse_memory

RANK_COUNT = Number(ranges.RANKS)
CHUNK_COUNT = Number(ranges.CHUNKS)
MICROBATCH_COUNT = Number(ranges.MICROBATCHES)
SPLIT_COUNT = Number(ranges.SEQUENCE_SPLITS)
LAYER_COUNT = Number(ranges.LAYERS)
TOKEN_COUNT = Number(ranges.TOKENS)
SEQUENCE_COUNT = Number(ranges.SEQUENCES)
DEVICE_COUNT = Number(ranges.DEVICES)
MODEL_SIZE = Number(ranges.MODEL_SIZE)
TRAINED_SIZE = Number(ranges.TRAINED_SIZE)
EFFICIENCY = Number(ranges.SHARE)
FILE = click.Path(path_type=Path)

RANKS = click.option("--ranks", type=RANK_COUNT, required=True, help="Pipeline ranks.")
MICROBATCHES = click.option("--microbatches", type=MICROBATCH_COUNT, required=True, help="Microbatches of one step.")
CHUNKS = click.option(
    "--chunks", type=CHUNK_COUNT, help="Model chunks of each rank.  [default: those of the schedule, or 1]"
)
SEQUENCE_SPLITS = click.option(
    "--sequence-splits", type=SPLIT_COUNT, default=1, show_default=True, help="Parts that each sequence is cut into."
)
MEMORY = click.option(
    "--memory", metavar="SIZE", help="Memory limit of each rank, such as 56GB or 57344MB.  [default: no limit]"
)
SCHEDULE = click.option(
    "--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1.  [default: 1f1b, or interleaved for several chunks]",
)
BEST = "best"
SEARCH = SEARCHED
PLAN_SCHEDULE = click.option(
    "--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1; best to try them all, with --chunks or with 1 to 4 chunks; or "
    "search to look for the order of work as well.  [default: 1f1b, or interleaved for several chunks]",
)
EVERY = "best"


class _GroupSize(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A number of microbatches, or ``best``."""

    name = "N|best"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value.lower() == EVERY:
            return EVERY
        number: Any = as_number(value, ranges.MICROBATCHES)
        if number not in ranges.MICROBATCHES:
            rule = _("must be an integer {range}, or {every}", range=ranges.MICROBATCHES.text, every=EVERY)
            raise InputError(value=value, rule=rule, place="--group-size")
        return int(number)


GROUP_SIZE = click.option(
    "--group-size",
    type=_GroupSize(),
    metavar=f"N|{EVERY}",
    help="Microbatches of a group in an interleaved schedule, which go through one chunk after the other; "
    f"{EVERY} to try every number that makes another order.  [default: as many as ranks]",
)
LESS_MEMORY = click.option(
    "--less-memory", is_flag=True, help="With several chunks: use the interleaved order with the shortest warm-up."
)


TIME_LIMIT = click.option(
    "--time-limit",
    type=Number(ranges.SECONDS),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop searching after this time; the best plan so far is the answer.",
)
ACCELERATOR_HELP = (
    "Accelerator of the devices, such as a100, h100, gb200, mi300x or 910b, or a YAML or JSON file that describes one."
)
ACCELERATOR = click.option("--accelerator", metavar="NAME|FILE", help=ACCELERATOR_HELP)
OPTIMIZER = click.option(
    "--optimizer",
    type=click.Choice(list(OPTIMIZERS)),
    default="adam",
    show_default=True,
    help="What training keeps for a parameter: adam holds 32-bit weights and moments, torch-adam moments of --dtype.",
)
JSON = click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write the result as JSON.")
OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace files that evenflow did not write, or that were changed since.",
)
SVG = click.option("--svg", "svg_file", type=FILE, metavar="FILE", help="Draw timeline and memory.")
HTML = click.option(
    "--html",
    "html_file",
    type=FILE,
    metavar="FILE.html",
    help="Write a report for the browser: one file with timeline, memory and idle time by cause, and the plan itself.",
)
TRACE = click.option(
    "--trace",
    "trace_file",
    type=FILE,
    metavar="FILE",
    help="Write timeline and memory as a Chrome trace, which Perfetto opens.",
)


def memory_limit(text: str | None) -> int | None:
    """Return the bytes of ``--memory``."""
    return None if text is None else parse_memory(text, place="--memory")


def num_chunks(asked: int | None, *, schedule: str | None) -> int:
    """Return the chunks of ``--chunks``, or those that the family of ``--schedule`` has."""
    return chunk_count(schedule, asked) if schedule is not None else asked or 1


def schedule_name(name: str | None, *, num_chunks: int, less_memory: bool) -> str:
    """Return the schedule family that ``--schedule`` or ``--less-memory`` asks for."""
    if name is None:
        return default_family(num_chunks=num_chunks, less_memory=less_memory)
    family = family_name(name)
    if less_memory and family != "interleaved-less-memory":
        raise InputError(
            value=name,
            rule=_("must be interleaved-less-memory, or not given, beside --less-memory"),
            place="--schedule",
            remedy=_("leave one of the two out"),
        )
    return family
