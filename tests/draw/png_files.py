"""How to look into a PNG file. [PNG, ISO/IEC 15948, §5 and §11]"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenflow.draw.png import has_letters

NEEDS_FONTS = pytest.mark.skipif(not has_letters(), reason="this machine has no fonts")
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_size(file: Path) -> tuple[int, int]:
    """Width and height in pixels."""
    width, height = struct.unpack(">II", dict(_chunks(file.read_bytes()))[b"IHDR"][:8])
    return width, height


def png_values(content: bytes) -> int:
    """How many different bytes the rows of the picture have; a blank one has two or three."""
    return len(set(zlib.decompress(b"".join(data for name, data in _chunks(content) if name == b"IDAT"))))


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    assert content.startswith(SIGNATURE)
    at = len(SIGNATURE)
    while at < len(content):
        length, name = struct.unpack(">I4s", content[at : at + 8])
        data = content[at + 8 : at + 8 + length]
        assert zlib.crc32(name + data) == struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0]
        yield name, data
        at += 12 + length
    assert name == b"IEND"
