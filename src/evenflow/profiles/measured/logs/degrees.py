"""What follows from the degrees of parallelism that a log states."""

from collections.abc import Mapping


def with_sizes(fields: Mapping[str, object]) -> dict[str, object]:
    """Return fields of a run with devices, data parallelism, microbatches, schedule and name where they follow.

    A degree that is not stated counts as 1 for the devices: frameworks that do not print it do not have it.
    """
    sizes = {name: value for name, value in fields.items() if value is not None}

    def whole(name: str, absent: int = 0) -> int:
        value = sizes.get(name)
        return value if isinstance(value, int) else absent

    group = whole("tp", 1) * whole("pp", 1) * whole("cp", 1)
    sequences = whole("mbs") * whole("microbatches")
    if sequences and not whole("gpus") and whole("gbs") % sequences == 0:
        sizes.setdefault("dp", whole("gbs") // sequences)
    if whole("gpus") and "dp" not in sizes and whole("gpus") % group == 0:
        sizes["dp"] = whole("gpus") // group
    if whole("dp") and "gpus" not in sizes:
        sizes["gpus"] = whole("dp") * group
    once = whole("dp") * whole("mbs")
    if once and whole("gbs") and whole("gbs") % once == 0:
        sizes.setdefault("microbatches", whole("gbs") // once)
    if whole("pp") > 1 and "vpp" in sizes:
        sizes.setdefault("schedule", "interleaved" if whole("vpp") > 1 else "1f1b")
    if "hidden" in sizes and "layers" in sizes:
        sizes.setdefault("model", f"h{whole('hidden')} L{whole('layers')}")
    return sizes


def shared_width(count: int | None, expert_ffn: int | None) -> str | None:
    """The width of the shared experts together, as a note."""
    return f"moe-shared-expert-intermediate-size={count * expert_ffn}" if count and expert_ffn else None
