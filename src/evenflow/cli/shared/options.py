"""Options that several verbs share, and what their values mean."""

import math
import sys
from collections.abc import Callable
from pathlib import Path

import click

from evenflow.errors import InputError
from evenflow.fields import read_text as read_text_file
from evenflow.model import Communication, Network
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.schedule import default_family, family_name
from evenflow.schedule.families import chunk_count
from evenflow.solve.order.searcher import SEARCHED
from evenflow.units import MEGABYTE, parse_memory

COUNT = click.IntRange(min=1)
FILE = click.Path(path_type=Path)

RANKS = click.option("--ranks", type=COUNT, required=True, help="Pipeline ranks.")
MICROBATCHES = click.option("--microbatches", type=COUNT, required=True, help="Microbatches of one step.")
CHUNKS = click.option("--chunks", type=COUNT, help="Model chunks of each rank.  [default: what the schedule has, or 1]")
SEQUENCE_SPLITS = click.option(
    "--sequence-splits", type=COUNT, default=1, show_default=True, help="Parts that each sequence is cut into."
)
MEMORY = click.option(
    "--memory", metavar="SIZE", help="Memory limit of a rank, such as 56GB or 57344MB (none: no limit)."
)
SCHEDULE = click.option(
    "--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1.  [default: 1f1b, or interleaved for chunks]",
)
BEST = "best"
SEARCH = SEARCHED
PLAN_SCHEDULE = click.option(
    "--schedule",
    metavar="NAME",
    help="One of `evenflow schedules`, such as zb-h1; best: try them all, with --chunks or with 1 to 4 chunks; or "
    "search: look for the order of work as well.  [default: 1f1b, or interleaved for chunks]",
)
LESS_MEMORY = click.option(
    "--less-memory", is_flag=True, help="With several chunks: the interleaved order with the shortest warm-up."
)


def _seconds(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    """A time limit; click's own range lets NaN through."""
    if not 0 < value <= 1e9:
        raise click.BadParameter(f"{value} is not a number of seconds above zero")
    return value


TIME_LIMIT = click.option(
    "--time-limit",
    type=float,
    callback=_seconds,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop searching after this time; the best plan so far is the answer.",
)
JSON = click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write the result as JSON.")
SVG = click.option("--svg", "svg_file", type=FILE, metavar="FILE", help="Draw timeline and memory.")


def p2p_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say what a message between ranks costs."""
    for option in (
        click.option("--boundary-mb", type=float, metavar="MB", help="What one microbatch sends to the next stage."),
        click.option(
            "--p2p-bandwidth-gbps",
            type=float,
            metavar="GBPS",
            help="Bandwidth between ranks, 10^9 bits a second; needs --boundary-mb.",
        ),
        click.option("--p2p-latency-us", type=float, metavar="US", help="Latency of a message between ranks."),
    ):
        command = option(command)
    return command


def communication(
    latency_us: float | None, bandwidth_gbps: float | None, boundary_mb: float | None, *, sequence_splits: int = 1
) -> Communication | None:
    """The cost of a message from the p2p options; None where none was given.

    ``transfer = boundary / bandwidth``; a part of a split sequence sends its share of the boundary.
    """
    for option, value, may_be_zero in (
        ("--p2p-latency-us", latency_us, True),
        ("--p2p-bandwidth-gbps", bandwidth_gbps, False),
        ("--boundary-mb", boundary_mb, True),
    ):
        if value is not None and not (0 < value <= 1e9 or (may_be_zero and value == 0)):
            rule = f"a number {'not below' if may_be_zero else 'above'} zero, at most 10^9"
            raise InputError(value=value, rule=rule, place=option)
    if (bandwidth_gbps is None) != (boundary_mb is None):
        given, missing = "--p2p-bandwidth-gbps", "--boundary-mb"
        if bandwidth_gbps is None:
            given, missing = missing, given
        raise InputError(
            value=boundary_mb if bandwidth_gbps is None else bandwidth_gbps,
            rule="bandwidth and boundary make the transfer time together",
            place=given,
            remedy=f"add {missing}",
        )
    if latency_us is None and bandwidth_gbps is None:
        return None
    transfer_ns = 0.0
    if bandwidth_gbps is not None and boundary_mb is not None:
        bits = 8 * boundary_mb * MEGABYTE / sequence_splits
        transfer_ns = bits / bandwidth_gbps  # 10^9 bits a second are one bit a nanosecond
    return Communication(latency_ns=round(1000 * (latency_us or 0)), transfer_ns=math.ceil(transfer_ns))


def memory_limit(text: str | None) -> int | None:
    """Bytes of ``--memory``."""
    return None if text is None else parse_memory(text, place="--memory")


def num_chunks(asked: int | None, *, schedule: str | None) -> int:
    """The chunks of ``--chunks``; without, what the family of ``--schedule`` has."""
    return chunk_count(schedule, asked) if schedule is not None else asked or 1


def schedule_name(name: str | None, *, num_chunks: int, less_memory: bool) -> str:
    """The schedule family that ``--schedule`` or ``--less-memory`` asks for."""
    if name is None:
        return default_family(num_chunks=num_chunks, less_memory=less_memory)
    family = family_name(name)
    if less_memory and family != "interleaved-less-memory":
        raise InputError(
            value=name,
            rule="--less-memory is the schedule interleaved-less-memory",
            place="--schedule",
            remedy="leave one of the two out",
        )
    return family


def is_best(name: str | None, *, less_memory: bool) -> bool:
    """Whether ``--schedule`` asks for the best of all."""
    if name is None or name.lower() != BEST:
        return False
    if less_memory:
        raise InputError(
            value=BEST,
            rule="interleaved-less-memory is one of the schedules that it tries",
            place="--schedule",
            remedy="leave out --less-memory",
        )
    return True


def read_text(path: str) -> tuple[str, str]:
    """The text of an input file, and its name for messages; ``-`` is standard input."""
    if path != "-":
        return read_text_file(path), path
    place = "standard input"
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig"), place
    except UnicodeDecodeError as error:
        raise InputError(value=path, rule=f"the file is UTF-8 text ({error.reason})", place=place) from None


def read_network(path: str) -> Network:
    """The network in a layer file; ``-`` is standard input."""
    text, place = read_text(path)
    return parse_layer_file(text, place=place)
