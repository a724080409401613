"""Numbers of layers on the command line."""

from evenflow.errors import InputError


def parse_counts(text: str, place: str) -> list[int]:
    """Return the counts of a text such as ``8,8,7``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(
            value=text, rule="must be counts, separated by commas", place=place, remedy="write for example 8,8,7"
        )
    return [int(part) for part in parts]
