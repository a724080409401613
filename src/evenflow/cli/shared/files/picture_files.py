"""Files of pictures: the suffix says the format, SVG or PNG, and any other is refused."""

from pathlib import Path

from evenflow.errors import InputError
from evenflow.language import _

SVG, PNG = ".svg", ".png"


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


def picture_content(path: Path, svg: str) -> str | bytes:
    """Return what goes into the file: the SVG, or a PNG drawn from it where the name ends in .png."""
    if path.suffix.lower() != PNG:
        return svg
    from evenflow.draw.png import png_bytes

    return png_bytes(svg)
