"""Options that several verbs share, and how their values are read."""

from pathlib import Path
from typing import Any

import click

from evenflow import ranges
from evenflow.asking import asked
from evenflow.cli.shared.numbers import Number, as_number
from evenflow.cli.shared.request_options import option_of
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.kept_per_parameter import OPTIMIZERS
from evenflow.questions import NUM_RANKS, SEARCH_TIME
from evenflow.schedule import chunk_count, default_family, family_name
from evenflow.solve.order.searcher import SEARCHED
from evenflow.units import parse_memory

RANK_COUNT = Number(ranges.RANKS)
MICROBATCH_COUNT = Number(ranges.MICROBATCHES)
LAYER_COUNT = Number(ranges.LAYERS)
TOKEN_COUNT = Number(ranges.TOKENS)
SEQUENCE_COUNT = Number(ranges.SEQUENCES)
DEVICE_COUNT = Number(ranges.DEVICES)
MODEL_SIZE = Number(ranges.MODEL_SIZE)
TRAINED_SIZE = Number(ranges.TRAINED_SIZE)
EFFICIENCY = Number(ranges.SHARE)
FILE = click.Path(path_type=Path)

RANKS = option_of(NUM_RANKS, "ranks", is_required=True)
TIME_LIMIT = option_of(SEARCH_TIME, "time_limit", default=60.0)
MEMORY_TEXT = asked(
    option="--memory",
    metavar="SIZE",
    help="Memory limit of each rank, such as 56GB or 57344MB.  [default: no limit]",
)
ONE_SCHEDULE = asked(
    option="--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1.  [default: 1f1b, or interleaved for several chunks]",
)
BEST = "best"
SEARCH = SEARCHED
EVERY = "best"


class _GroupSize(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The type of ``--group-size``: a number of microbatches, or ``best``."""

    name = "N|best"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value.lower() == EVERY:
            return EVERY
        number: Any = as_number(value, ranges.MICROBATCHES)
        if number not in ranges.MICROBATCHES:
            rule = _("must be an integer {range}, or {every}", range=ranges.MICROBATCHES.text, every=EVERY)
            raise InputError(value=value, rule=rule, place="--group-size")
        return int(number)


GROUP_OF = asked(
    option="--group-size",
    kind=_GroupSize(),
    metavar=f"N|{EVERY}",
    help="Microbatches of a group in an interleaved schedule, which go through one chunk after the other; "
    f"{EVERY} to try every number that makes another order.  [default: as many as ranks]",
)
SHORTEST_WARM_UP = asked(
    option="--less-memory", help="With several chunks: use the interleaved order with the shortest warm-up."
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
JSON_FILE = asked(is_written=True, option="--json", kind=FILE, metavar="FILE", help="Write the result as JSON.")
SVG_FILE = asked(is_written=True, option="--svg", kind=FILE, metavar="FILE", help="Draw timeline and memory.")
HTML_FILE = asked(
    is_written=True,
    option="--html",
    kind=FILE,
    metavar="FILE.html",
    help="Write a report for the browser: one file with timeline, memory and idle time by cause, and the plan itself.",
)
TRACE_FILE = asked(
    is_written=True,
    option="--trace",
    kind=FILE,
    metavar="FILE",
    help="Write timeline and memory as a Chrome trace, which Perfetto opens.",
)
JSON = option_of(JSON_FILE, "json_file")
HTML = option_of(HTML_FILE, "html_file")
TRACE = option_of(TRACE_FILE, "trace_file")
OVERWRITES = asked(
    option="--overwrite", help="Also replace files that evenflow did not write, or that were changed since."
)
OVERWRITE = option_of(OVERWRITES, "overwrite", default=False)


def memory_limit(text: str | None) -> int | None:
    """Return the bytes of ``--memory``."""
    return None if text is None else parse_memory(text, place="--memory")


def num_chunks(chunks: int | None, *, schedule: str | None) -> int:
    """Return the chunks of ``--chunks``, or those that the family of ``--schedule`` has."""
    return chunk_count(schedule, chunks) if schedule is not None else chunks or 1


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
