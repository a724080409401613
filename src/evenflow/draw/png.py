"""SVG text as a PNG file. resvg draws it, a small library that is an extra."""

from functools import cache

from evenflow.draw.svg_elements import FONT_FAMILY
from evenflow.errors import InputError
from evenflow.language import _

_ZOOM = 2.0
"""Pixels of the PNG by those of the SVG, so that small words stay sharp."""
_PROBE = f'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="{FONT_FAMILY}">{{content}}</svg>'


def check_png(*, place: str) -> None:
    """Refuse where no PNG can be drawn; `place` is what was asked for.

    Raises:
        InputError: resvg is not installed, or finds no font, so that pictures would have no words.
    """
    try:
        import resvg_py  # noqa: F401
    except ImportError:
        raise InputError(
            rule=_("must end in .svg where resvg is missing, which draws PNG files"),
            place=place,
            remedy=_("pip install 'evenflow[png]'"),
        ) from None
    if not has_letters():
        raise InputError(
            rule=_("must end in .svg on a machine without fonts, where a PNG would have no words"),
            place=place,
            remedy=_("install fonts, such as the package fonts-dejavu-core, or name an .svg file"),
        )


def png_bytes(svg: str) -> bytes:
    """Return a picture as a PNG file of twice its width and height in pixels."""
    import resvg_py

    return resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM)


@cache
def has_letters() -> bool:
    """Whether a digit leaves any ink: resvg leaves words out, without an error, where it finds no font for them."""
    digit = '<text x="4" y="16" font-size="16">0</text>'
    return png_bytes(_PROBE.format(content=digit)) != png_bytes(_PROBE.format(content=""))
