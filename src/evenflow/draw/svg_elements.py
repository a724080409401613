"""The SVG elements that pictures are made of, as strings, and an estimate of the width of text."""

import re
import unicodedata
from xml.sax.saxutils import escape, quoteattr

from evenflow.draw.palette import INK, PAPER
from evenflow.plain_text import replacing_unprintable

FONT_FAMILY = (
    "'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', 'Noto Sans CJK SC', "
    "'Microsoft YaHei', sans-serif"
)
"""Fonts of every kind of system by name: not every program that draws SVG knows which font is the plain sans-serif."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAG = re.compile("<[^>]*>")
_NAME = re.compile(r'( id="| href="#|="url\(#)')
_WIDTH_CLASSES = (
    (0.3, "'Iijl"),
    (0.36, " ,./:;\\f|·"),
    (0.42, "!()-[]rt"),
    (0.46, '"'),
    (0.52, "*J`"),
    (0.56, "csz"),
    (0.6, "?L_kvxy"),
    (0.64, "$0123456789FTabdeghnopqu"),
    (0.7, "ABEKPSVXYZ"),
    (0.76, "CHNRU"),
    (0.8, "&DGOQ"),
    (0.84, "#+<=>w~×−"),
    (0.87, "M"),
    (0.98, "%m"),
    (1.05, "@W…"),
)
_WIDTHS = {character: width for width, characters in _WIDTH_CLASSES for character in characters}
"""Advance widths in ems, rounded up: of Helvetica, or of DejaVu Sans, the font of many Linux machines, if wider."""
_NARROWEST = min(_WIDTHS.values())
_BOLD_IS_WIDER = 1.13


def number(value: float) -> str:
    """Return a coordinate with at most one decimal.

    >>> number(3.04), number(3.06), number(-0.01)
    ('3', '3.1', '0')
    """
    return tenths(round(value * 10))


def tenths(value: int) -> str:
    """Return a coordinate given in tenths of a pixel."""
    return str(value // 10) if value % 10 == 0 else f"{value / 10:.1f}"


def clean(content: str) -> str:
    """Return `content` on one line, with markup escaped and what XML cannot hold or turns text around replaced."""
    return escape(_held(content.translate({9: " ", 10: " ", 13: " "})))


def text_width(content: str, size: float, *, bold: bool = False) -> float:
    """Return about how many pixels wide `content` is in a sans-serif of `size`, rather too many than too few."""
    width = size * sum(_character_width(character) for character in content)
    return width * _BOLD_IS_WIDER if bold else width


def fit_text(content: str, size: float, width: float, *, bold: bool = False) -> str:
    """Return `content`, cut and ended with an ellipsis where it is wider than `width`."""
    most = max(0, int(width / (size * _NARROWEST))) + 1  # so many characters are wider, whichever they are
    if len(content) <= most and text_width(content, size, bold=bold) <= width:
        return content
    content = content[:most]
    while content and text_width(content + "…", size, bold=bold) > width:
        content = content[:-1]
    return content.rstrip() + "…"


def text(
    x: float, y: float, content: str, *, size: float = 12, fill: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    """Draw one line of text; `y` is its baseline."""
    attributes = f'x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{fill}"'
    if anchor != "start":
        attributes += f' text-anchor="{anchor}"'
    if bold:
        attributes += ' font-weight="600"'
    return f"<text {attributes}>{clean(content)}</text>"


def rect(x: float, y: float, width: float, height: float, *, fill: str, stroke: str = "", name: str = "") -> str:
    """Draw a rectangle."""
    outline = f' stroke="{stroke}"' if stroke else ""
    identity = f' id="{name}"' if name else ""
    return (
        f'<rect{identity} x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f'fill="{fill}"{outline}/>'
    )


def path(data: str, *, fill: str = "none", stroke: str = "", width: float = 1, extra: str = "") -> str:
    """Draw a path; `extra` is further attributes."""
    outline = f' stroke="{stroke}" stroke-width="{number(width)}"' if stroke else ""
    return f'<path d="{data}" fill="{fill}"{outline}{" " + extra if extra else ""}/>'


def group(name: str, parts: list[str]) -> list[str]:
    """Return `parts` as a named group."""
    return [f'<g id="{name}">', *parts, "</g>"]


def renamed(parts: list[str], prefix: str) -> list[str]:
    """Return parts whose names, and the references to them, start with `prefix`, so that parts may stand twice.

    >>> renamed(['<use href="#a"/>', '<text id="b">id="c"</text>'], "right-")
    ['<use href="#right-a"/>', '<text id="right-b">id="c"</text>']
    """
    return [_TAG.sub(lambda tag: _NAME.sub(rf"\1{prefix}", tag[0]), part) for part in parts]


def document(*, width: int, height: float, label: str, parts: list[str]) -> str:
    """Return a complete SVG file on white paper; `label` is what a screen reader says."""
    size = f'width="{width}" height="{number(height)}" viewBox="0 0 {width} {number(height)}"'
    spoken = quoteattr(_held(label))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={spoken} font-family="{FONT_FAMILY}">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _character_width(character: str) -> float:
    width = _WIDTHS.get(character)
    if width is None:
        width = 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.7
    return width


def _held(content: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", replacing_unprintable(content))
