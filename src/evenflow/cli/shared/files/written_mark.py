"""The mark of a file that evenflow wrote, with a fingerprint of the rest, which says whether it was changed since.

Where the mark stands depends on the file: the last field of a JSON object, a comment behind an SVG picture or
an HTML page, a chunk of text in a PNG picture, or a comment in the first line (below a script's line ``#!``).
"""

import hashlib
import re
import struct
import zlib
from dataclasses import dataclass

import evenflow
from evenflow.export.results.json_text import MARK

_DIGITS = 16
_MARK = re.compile(r"evenflow ([^\s,]+)(?:, measured by ([a-z-]+))?, fingerprint [0-9a-f]+")
_JSON_END = b"\n}\n"
_JSON_KEY = f',\n  "{MARK}": "'.encode()
_JSON = re.compile(re.escape(_JSON_KEY) + rb'(?P<mark>[^"\n]*)"\n\}\n\Z')
_MARKUP = re.compile(rb"<!-- written by (?P<mark>[^\n]*) -->\n\Z")
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
_BEFORE_COMMENT = re.compile(rb"(?:\xef\xbb\xbf)?(?:#![^\r\n]*(?:\r\n|\r|\n))?")
_COMMENT = re.compile(rb"\A(?P<before>%s)# written by (?P<mark>[^\r\n]*)(?:\r\n|\r|\n)" % _BEFORE_COMMENT.pattern)
_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"\x00\x00\x00\x00IEND\xaeB`\x82"
_PNG_KEY = b"tEXtSoftware\x00"
_PNG_MARK = re.compile(
    rb".{4}tEXtSoftware\x00(?P<mark>evenflow [ -~]*).{4}(?=\x00\x00\x00\x00IEND\xaeB`\x82\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMark:
    """The mark that a file has."""

    measured_by: str
    """Verb whose measurements the file holds; empty for a file that holds none."""
    is_changed: bool
    """Whether the file was changed after evenflow wrote it."""


def marked(
    content: bytes, *, measured_by: str = "", first_line: bool = False, version: str = evenflow.__version__
) -> bytes:
    """Return `content` with its mark: as a comment in the `first_line`, or where its format has a place for one.

    What is neither JSON, SVG, HTML nor PNG, and has no comments, is returned as it is.
    """
    author = f"evenflow {version}" + (f", measured by {measured_by}" if measured_by else "")
    digest = hashlib.sha256(author.encode())
    digest.update(content)
    fingerprint = digest.hexdigest()[:_DIGITS]
    mark = f"{author}, fingerprint {fingerprint}".encode()
    if first_line:
        before = _BEFORE_COMMENT.match(content)
        assert before is not None  # it matches nothing too
        line_break = _LINE_BREAK.search(content)
        comment = b"# written by " + mark + (line_break[0] if line_break else b"\n")
        return before[0] + comment + content[before.end() :]
    if content.startswith(b"{") and content.endswith(_JSON_END):
        return b"".join((memoryview(content)[: -len(_JSON_END)], _JSON_KEY, mark, b'"', _JSON_END))
    if content.startswith((b"<svg", b"<!doctype html>")):
        return content + b"<!-- written by " + mark + b" -->\n"
    if content.startswith(_PNG_START) and content.endswith(_PNG_END):
        data = _PNG_KEY + mark
        chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
        return content[: -len(_PNG_END)] + chunk + _PNG_END
    return content


def mark_of(content: bytes) -> WrittenMark | None:
    """Return the mark of a file; None where evenflow did not write it."""
    for pattern, end in ((_JSON, _JSON_END), (_MARKUP, b""), (_PNG_MARK, b""), (_COMMENT, b"")):
        match = pattern.search(content)
        if match is None:
            continue
        text = _MARK.fullmatch(match["mark"].decode("ascii", errors="replace"))
        if text is None:
            return None
        version, measured_by = text[1], text[2] or ""
        first_line = pattern is _COMMENT
        before = match["before"] if first_line else content[: match.start()]
        rest = before + end + content[match.end() :]
        again = marked(rest, measured_by=measured_by, first_line=first_line, version=version)
        return WrittenMark(measured_by=measured_by, is_changed=again != content)
    return None
