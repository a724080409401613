"""The accelerator that a driver's name for a device means."""

from evenflow.cluster.data_sheets import ACCELERATORS


def accelerator_of(device: str, memory_gib: float) -> str | None:
    """Return the name of the data sheet of a device such as ``NVIDIA H100 80GB HBM3``; None for an unknown one.

    Of several sizes of one accelerator it is that with the nearest memory.
    """
    words = device.lower().replace("-", " ")
    families = sorted({name.partition("-")[0] for name in ACCELERATORS}, key=len, reverse=True)
    family = next((family for family in families if family in words), None)
    if family is None:
        return None
    sizes = {
        name: abs(sheet.memory_bytes - memory_gib * 2**30)
        for name, sheet in ACCELERATORS.items()
        if name.partition("-")[0] == family
    }
    return min(sizes, key=lambda name: sizes[name])
