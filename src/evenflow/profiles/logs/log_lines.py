"""The lines of a log, however large it is, and whatever a terminal was told to do with them; arguments in them.

Megatron-LM and its relatives print arguments each on a line: ``  num_layers ........ 32``. [Megatron-LM, `_print_args`
in megatron/training/arguments.py; DeepSpeed prints its configuration in the same form]
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

LONGEST_LINE = 1 << 20
"""Bytes after which a line is cut, so that a log without line breaks does not fill the memory."""
PRINTED = re.compile(r"(?:^|[ \t:\]])([A-Za-z_][A-Za-z0-9_]*) \.+ ([^\n]*)$", re.MULTILINE)
"""Name and value of a printed argument."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def log_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of a log without colours; what a progress bar writes over itself is a line each time."""
    for line in iter(partial(file.readline, LONGEST_LINE), b""):
        text = line.decode(errors="replace")
        if "\x1b" in text:
            text = _COLOUR.sub("", text)
        if "\r" in text:
            yield from text.split("\r")
        else:
            yield text
