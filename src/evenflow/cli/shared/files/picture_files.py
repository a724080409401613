"""Formats of files by their suffix: what is written must be what the suffix says."""

from pathlib import Path

from evenflow.errors import InputError
from evenflow.language import _

SVG, PNG = ".svg", ".png"
HTML, HTM = ".html", ".htm"
JSON, CSV, YAML = ".json", ".csv", ".yaml"
_ALSO = {YAML: ".yml"}
"""Second suffixes of formats."""
_SUFFIXES = frozenset((SVG, PNG, HTML, HTM, JSON, CSV, YAML, *_ALSO.values(), ".toml"))


def check_picture_file(path: Path, *, place: str) -> None:
    """Refuse a file that no picture can be written to: another format, or PNG where it cannot be drawn."""
    suffix = path.suffix.lower()
    if suffix not in (SVG, PNG, ""):
        raise InputError(
            value=str(path),
            rule=_("must end in {svg} or {png}, the formats of pictures", svg=SVG, png=PNG),
            place=place,
            remedy=_(
                "name it {stem}{svg}, which other programs turn into {suffix}", stem=path.stem, svg=SVG, suffix=suffix
            ),
        )
    if suffix == PNG:
        from evenflow.draw.png import check_png

        check_png(place=place)


def check_page_file(path: Path, *, place: str) -> None:
    """Refuse a file that a browser would not open as a page."""
    if path.suffix.lower() not in (HTML, HTM, ""):
        raise InputError(
            value=str(path),
            rule=_("must end in {html}, the format of pages", html=HTML),
            place=place,
            remedy=_("name it {stem}{html}", stem=path.stem, html=HTML),
        )


def check_text_file(path: Path, own: str, *, place: str) -> None:
    """Refuse a file whose suffix is that of another format than its `own`, so that a program would misread it."""
    if path.suffix.lower() in _SUFFIXES - {own, _ALSO.get(own, own)}:
        raise InputError(
            value=str(path),
            rule=_("must not have the suffix of another format: it is written as {suffix}", suffix=own),
            place=place,
            remedy=_("name it {stem}{suffix}", stem=path.stem, suffix=own),
        )


def picture_content(path: Path, svg: str) -> str | bytes:
    """Return what goes into the file: the SVG, or a PNG drawn from it where the name ends in .png."""
    if path.suffix.lower() != PNG:
        return svg
    from evenflow.draw.png import png_bytes

    return png_bytes(svg)
