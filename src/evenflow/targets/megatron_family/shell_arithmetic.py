"""Arithmetic of a shell: ``$((NODES * 8))``."""

import re
from collections.abc import Callable

_MOST_DIGITS = 15
"""Numbers of more digits are no sizes of a training."""
_LONGEST_SUM = 200


def arithmetic(text: str, value_of: Callable[[str], str]) -> int | None:
    """Return the value of a sum or product of integers and variables; None for anything else.

    >>> arithmetic("$NODES * GPUS - 1", {"NODES": "2", "GPUS": "8"}.__getitem__)
    15
    """
    if len(text) > _LONGEST_SUM:
        return None
    tokens = re.findall(r"\$?\{?([A-Za-z_]\w*)\}?|([0-9]+)|([-+*/%()])|(\S)", text)
    plain = [(value_of(name) if name else number or sign or other).strip() for name, number, sign, other in tokens]
    try:
        value, rest = _sum(plain)
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return None if rest else value


def _sum(tokens: list[str]) -> tuple[int, list[str]]:
    value, rest = _product(tokens)
    while rest and rest[0] in ("+", "-"):
        sign, (more, rest) = rest[0], _product(rest[1:])
        value += more if sign == "+" else -more
    return value, rest


def _product(tokens: list[str]) -> tuple[int, list[str]]:
    value, rest = _factor(tokens)
    while rest and rest[0] in ("*", "/", "%"):
        sign, (more, rest) = rest[0], _factor(rest[1:])
        value = value * more if sign == "*" else value // more if sign == "/" else value % more
    return value, rest


def _factor(tokens: list[str]) -> tuple[int, list[str]]:
    if tokens[0] == "(":
        value, rest = _sum(tokens[1:])
        if rest[:1] != [")"]:
            raise ValueError
        return value, rest[1:]
    if len(tokens[0]) > _MOST_DIGITS or not (tokens[0].isascii() and tokens[0].isdigit()):
        raise ValueError
    return int(tokens[0]), tokens[1:]
