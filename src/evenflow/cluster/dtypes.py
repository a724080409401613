"""Number formats by name, without torch."""

from collections.abc import Mapping
from enum import StrEnum

from evenflow.fields import not_one_of


class Dtype(StrEnum):
    """A floating-point format; its value is the name PyTorch gives it, such as ``bfloat16``."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def short_name(self) -> str:
        """The name with its size alone, such as ``bf16``."""
        return self.value.replace("float", "fp").replace("bfp", "bf")

    @property
    def item_bytes(self) -> int:
        """Bytes of one number."""
        return int(self.value[-2:]) // 8


DTYPES: Mapping[str, Dtype] = {dtype.short_name: dtype for dtype in Dtype} | {dtype.value: dtype for dtype in Dtype}
"""Formats under both of their names."""


def parse_dtype(name: str, *, place: str = "dtype") -> Dtype:
    """Return the format called `name`, in either spelling and any case.

    >>> parse_dtype("bf16") is parse_dtype("bfloat16")
    True

    Raises:
        InputError: a name that is none of `DTYPES`.
    """
    if name.lower() not in DTYPES:
        raise not_one_of(name, DTYPES, place=place)
    return DTYPES[name.lower()]
