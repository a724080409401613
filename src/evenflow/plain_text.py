"""Text of users as a terminal may show it: nothing in it moves the cursor, rings, turns text around or begins a line.

Names come from files of other people. What was written raw could hide what a command says, or look like an answer of
its own. Files that programs read keep the text as it is.
"""

import re

_ACTS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_UNPRINTABLE = re.compile(f"[{_ACTS}]")
"""Characters that a terminal acts on or does not show, and halves of characters. Tabs and line breaks are not."""
_NOT_ON_A_LINE = re.compile(f"[\t\n{_ACTS}]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """Return `text` with escapes in the place of characters that a terminal would act on; line breaks stay.

    >>> printable("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return _UNPRINTABLE.sub(_escaped, text)


def replacing_unprintable(text: str) -> str:
    """Return `text` with U+FFFD for every character that `printable` escapes: as long as it was, for pictures.

    >>> replacing_unprintable("a\\x1bb")
    'a\ufffdb'
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def is_on_one_line(text: str) -> bool:
    """Return whether `on_one_line` leaves `text` as it is."""
    return _NOT_ON_A_LINE.search(text) is None


def on_one_line(text: str) -> str:
    """Return `text` as part of a line: `printable`, with escapes in the place of tabs and line breaks too.

    >>> on_one_line("llama\\noptimal: 1 ms")
    'llama\\\\noptimal: 1 ms'
    """
    return _NOT_ON_A_LINE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """Return the escape of a character; JSON, YAML and TOML read those beyond ASCII as the character."""
    number = ord(match[0])
    if number < 0x20:
        return _SHORT.get(match[0], f"\\x{number:02x}")
    if number < 0x10000:
        return f"\\u{number:04x}"
    return f"\\U{number:08x}"
