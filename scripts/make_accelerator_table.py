"""Write the table of docs/accelerators.md: the accelerators that have a name, from their data sheets.

Run it with ``make accelerator-table``.
"""

from pathlib import Path

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import ACCELERATORS, ALIASES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accelerators.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
HEADER = (
    "name",
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp4",
    "memory",
    "its GB/s",
    "link GB/s",
    "network GB/s",
    "what it reaches",
    "source",
)
REACHED = {
    **dict.fromkeys(("Volta", "Ampere", "Hopper", "Blackwell"), "fitted to runs of its generation"),
    "CDNA": "never measured",
    "Ascend": "12 runs of 910B compared, none fitted",
}
"""Where what training reaches of a generation is from, as `evenflow.cluster.generations` tells it."""
NARROW = ("float8", "float4")
"""Formats that older devices lack."""


def rates(sheet: Accelerator) -> list[str]:
    """Return the rates in TFLOPS; a dash for a format that has no rate of its own."""
    written = {dtype: f"{rate / 1e12:g}" for dtype, rate in sheet.flops_per_s_of.items()}
    for dtype, wider in (("tfloat32", "float32"), ("float4", "float8"), ("float8", "float16")):
        if sheet.rate(dtype) == sheet.rate(wider):
            written[dtype] = "–"
    return [written[dtype] for dtype in ("float32", "tfloat32", "bfloat16", "float16", *NARROW)]


def row(sheet: Accelerator) -> tuple[str, ...]:
    """Return the cells of an accelerator."""
    names = [sheet.name, *(alias for alias, name in ALIASES.items() if name == sheet.name)]
    return (
        ", ".join(f"`{name}`" for name in names),
        *rates(sheet),
        f"{sheet.memory_bytes / 2**30:.2f}",
        f"{sheet.memory_bytes_per_s / 1e9:g}",
        f"{sheet.link_bytes_per_s / 1e9:g} × {sheet.link_devices}",
        f"{sheet.network_bytes_per_s / 1e9:g}",
        REACHED[sheet.generation],
        sheet.source,
    )


def table() -> str:
    """Return the table, with a row for each accelerator."""
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(row(sheet))} |" for sheet in ACCELERATORS.own.values()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table as it must be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
