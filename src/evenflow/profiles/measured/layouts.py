"""The layers of every cell of a run, from what its layout states."""

import re

from evenflow.profiles.measured.run import MeasuredRun

Layout = tuple[tuple[int, ...], ...]
"""Layers of every cell [chunk][rank]; empty: dealt evenly."""
BOTH_ENDS = "embedding and loss"
"""Of a layout: both ends count as a layer each."""
FURTHER_TOKENS = "further tokens and loss"
"""Of a layout: the loss counts as a layer, and so does each block that predicts further tokens."""


def usual_layout(run: MeasuredRun) -> str:
    """Return the layout of a mixture whose layers cannot be dealt evenly; empty where they can."""
    stages, further = (run.pp or 1) * (run.vpp or 1), run.mtp_layers or 0
    if not (run.experts and (run.layers or 0) % stages):
        return ""
    evens_out = not further and ((run.layers or 0) + 2) % stages == 0
    return f"{BOTH_ENDS if evens_out else FURTHER_TOKENS} count as layers"


def layout_of(run: MeasuredRun) -> Layout:
    """Return the layout of a completed run; empty where layers are dealt evenly or the text does not add up."""
    ranks, chunks, layers = run.pp or 1, run.vpp or 1, run.layers or 0
    counts = _counts(run.layout or "", ranks * chunks, layers, further=run.mtp_layers or 0)
    if not counts or len(counts) != ranks * chunks or sum(counts) != layers or min(counts) < 0:
        return ()
    return tuple(tuple(counts[chunk * ranks : (chunk + 1) * ranks]) for chunk in range(chunks))


def _counts(text: str, stages: int, layers: int, *, further: int = 0) -> list[int]:
    """Return the layers of every stage; `further` are blocks that predict further tokens."""
    of_stage, left = divmod(layers, stages)
    ends = re.search(r"first=(\d+) last=(\d+)", text)
    if "|" in text:
        return [stage.count("t") for stage in _written_out(text).split("|")]
    if ends and stages > 1:
        between, rest = divmod(layers - int(ends[1]) - int(ends[2]), max(1, stages - 2))
        return [] if rest else [int(ends[1]), *[between] * (stages - 2), int(ends[2])]
    if BOTH_ENDS in text:
        of_stage = (layers + 2) // stages
        counts = [of_stage] * stages
        counts[0] -= 1
        counts[-1] -= 1
        counts[1 % stages] += layers + 2 - of_stage * stages
        return counts
    if FURTHER_TOKENS in text and stages > 1:
        beside = 1 + further
        last = max(0, -(-(layers + beside) // stages) - beside)
        between, more = divmod(layers - last, stages - 1)
        return [*[between] * (stages - 1 - more), *[between + 1] * more, last]
    if "last stage has 1" in text and stages > 1:
        between, rest = divmod(layers - 1, stages - 1)
        return [] if rest else [*[between] * (stages - 1), 1]
    return [of_stage + (stage < left) for stage in range(stages)] if left and stages > 1 else []


def _written_out(text: str) -> str:
    """Write out ``(tt|)*5`` and ``t*3`` of a pipeline layout of Megatron-LM: E, t, m, L and bars remain."""
    text = text.replace(",", "")
    for pattern in (r"\(([^()]*)\)\*(\d+)", r"([A-Za-z])\*(\d+)"):
        while re.search(pattern, text):
            text = re.sub(pattern, lambda match: match[1] * int(match[2]), text)
    return text
