"""Files of pictures: the suffix says the format, SVG or PNG, and any other is refused."""

from pathlib import Path

from evenflow.errors import InputError

SVG, PNG = ".svg", ".png"


def check_picture_file(path: Path, *, place: str) -> None:
    """Refuse a file that no picture can be written to: another format, or PNG where it cannot be drawn."""
    suffix = path.suffix.lower()
    if suffix not in (SVG, PNG, ""):
        raise InputError(
            value=str(path),
            rule=f"must end in {SVG} or {PNG}, the formats of pictures",
            place=place,
            remedy=f"name it {path.stem}{SVG}, which other programs turn into {suffix}",
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
