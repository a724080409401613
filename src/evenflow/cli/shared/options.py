"""Options that several verbs share, and how their values are read."""

from pathlib import Path
from typing import Any

import click

from evenflow import ranges
from evenflow.asking import asked
from evenflow.cli.shared.numbers import as_number
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import chunk_count, default_family, family_name
from evenflow.solve.order.searcher import SEARCHED
from evenflow.units import parse_memory

FILE = click.Path(path_type=Path)

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


def _group_size(text: str) -> int | str:
    """Return the value of ``--group-size``: a number of microbatches, or ``best``."""
    if text.lower() == EVERY:
        return EVERY
    number: Any = as_number(text, ranges.MICROBATCHES)
    if number not in ranges.MICROBATCHES:
        rule = _("must be an integer {range}, or {every}", range=ranges.MICROBATCHES.text, every=EVERY)
        raise InputError(value=text, rule=rule, place="--group-size")
    return int(number)


GROUP_OF = asked(
    option="--group-size",
    read=_group_size,
    metavar=f"N|{EVERY}",
    help="Microbatches of a group in an interleaved schedule, which go through one chunk after the other; "
    f"{EVERY} to try every number that makes another order.  [default: as many as ranks]",
)
ALLOWS_EMPTY = asked(
    option="--allow-empty",
    no_option="--no-empty",
    help="Whether cells may hold no layer.  [default: where they can be run]",
)
SHORTEST_WARM_UP = asked(
    option="--less-memory", help="With several chunks: use the interleaved order with the shortest warm-up."
)


JSON_FILE = asked(is_written=True, option="--json", help="Write the result as JSON; - is standard output.")
SVG_FILE = asked(is_written=True, option="--svg", help="Draw timeline and memory.")
HTML_FILE = asked(
    is_written=True,
    option="--html",
    metavar="FILE.html",
    help="Write a report for the browser: one file with timeline, memory and idle time by cause, and the plan itself.",
)
TRACE_FILE = asked(
    is_written=True, option="--trace", help="Write timeline and memory as a Chrome trace, which Perfetto opens."
)
OVERWRITES = asked(
    option="--overwrite", help="Also replace files that evenflow did not write, or that were changed since."
)


def memory_limit(text: str | None) -> int | None:
    """Return the bytes of ``--memory``."""
    return None if text is None else parse_memory(text, place="--memory", needs_unit=True)


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
