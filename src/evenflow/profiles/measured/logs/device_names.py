"""The accelerator that a driver's name for a device means."""

import re

from evenflow.cluster.data_sheets import ACCELERATORS

_DIE_OF_910C = "910_93"
"""In what CANN calls a die of an Ascend 910C, such as ``Ascend910_9392``."""
_GIGABYTES = re.compile(r"([0-9]{1,4}) ?GB")


def accelerator_of(device: str, memory_gib: float | None = None) -> str | None:
    """Return the name of the data sheet of a device such as ``NVIDIA H100 80GB HBM3``; None for an unknown one.

    Of several sizes of one accelerator it is that with the nearest memory, which may be in the name; None without.
    """
    known = {name: sheet for name, sheet in ACCELERATORS.items() if not name.endswith("-package")}  # programs see dies
    families = sorted({name.partition("-")[0] for name in known}, key=len, reverse=True)
    written = device.lower().replace(_DIE_OF_910C, "910c ")
    family = next((family for family in families if _is_in(family, written)), None)
    sheets = {name: sheet for name, sheet in known.items() if name.partition("-")[0] == family}
    named = _GIGABYTES.search(device)
    if memory_gib is None and named is not None:
        memory_gib = float(named[1])
    if memory_gib is None:
        return next(iter(sheets)) if len(sheets) == 1 else None
    size = memory_gib * 2**30
    return min(sheets, key=lambda name: abs(sheets[name].memory_bytes - size), default=None)


def _is_in(family: str, device: str) -> bool:
    """Whether a name has that of a family in it, and no longer number: an A1000 is no A100."""
    end = "(?![0-9])" if family[-1].isdigit() else ""
    return re.search(rf"(?<![0-9]){family}{end}", device) is not None
