"""Input files by their name on the command line, where ``-`` is standard input."""

import sys
from typing import BinaryIO

from evenflow.errors import FileError, InputError
from evenflow.fields import read_stream
from evenflow.fields import read_text as read_file
from evenflow.language import _
from evenflow.model import Network
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.profiles.report_file import plan_text, read_plan_text

STANDARD_INPUT = "-"


def read_text(path: str) -> tuple[str, str]:
    """Return the text of an input file, and its name for messages; of a report the plan file that it carries."""
    if path != STANDARD_INPUT:
        return read_plan_text(path)
    text, place = read_whole(path)
    return plan_text(text, place=place)


def read_whole(path: str) -> tuple[str, str]:
    """Return the whole text of an input file, a report included, and its name for messages."""
    if path != STANDARD_INPUT:
        return read_file(path), path
    place = _("standard input")
    try:
        return read_stream(standard_input(place), place=place), place
    except OSError as error:
        raise FileError.from_os(place, error) from None


def standard_input(place: str) -> BinaryIO:
    """Return the bytes of standard input; raises FileError where it is closed."""
    if sys.stdin is None:
        raise FileError(place, reason=_("it is closed"))
    return sys.stdin.buffer


def read_network(path: str) -> Network:
    """Return the network in a layer file."""
    text, place = read_text(path)
    return parse_layer_file(text, place=place)


def read_plan(path: str) -> PlanFile:
    """Return a plan file, which must hold its model."""
    text, place = read_text(path)
    planned = parse_plan_file(text, place=place)
    if planned.network is None:
        raise InputError(rule=_("must hold its model, as 'network'"), place=place)
    return planned
