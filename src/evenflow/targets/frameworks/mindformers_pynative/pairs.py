"""Forwards beside backwards in a configuration YAML, ``pipeline_parallel_overlap_b_f``.

Two threads meet at every exchange of tokens, layer with experts by layer with experts, so that both parts of a pair
must have equally many of them. Blocks that predict further tokens, in the last stage, meet there too. [MindFormers
2.1.0, `apply_moe_ep_overlap_tp`, `_make_overlap_b_f_callback`]
"""

from dataclasses import dataclass

from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.model import Cells

OVERLAP, SPLIT = "pipeline_parallel_overlap_b_f", "pipeline_parallel_enable_dxdw_split"
_LAYERS = "pipeline_parallel_layers_per_stage"
_DENSE, _EVERY = "first_k_dense_replace", "moe_layer_freq"
_FURTHER = ("num_nextn_predict_layers", "mtp_num_layers")
"""Blocks that predict further tokens, under either name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Whether forwards run beside backwards, and what is to be said of it."""

    are_run: bool = False
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_pairs(parallel: Fields, model: Fields, layers: Cells) -> Pairs:
    """Return whether forwards run beside backwards in stages with these `layers`.

    Raises:
        InputError: the chunks of a rank hold unequal numbers of layers with experts, so that training never ends.
    """
    if not parallel.flag(OVERLAP):
        return Pairs()
    if len(layers) == 1:
        return Pairs(notes=(_("with one chunk for each rank, {key} changes nothing", key=OVERLAP),))
    num_dense = model.values.get(_DENSE) or 0
    if not is_integer(num_dense) or (not num_dense and model.values.get(_EVERY, 1) != 1):
        return Pairs(unknown=(parallel.place(OVERLAP),))
    counts: list[list[int]] = []
    begin = 0
    for row in layers:
        counts.append([])
        for count in row:
            counts[-1].append(begin + count - max(begin, min(int(num_dense), begin + count)))
            begin += count
    further = next((model.values[key] for key in _FURTHER if model.values.get(key)), 0)
    if not is_integer(further):
        return Pairs(unknown=(parallel.place(OVERLAP),))
    counts[-1][-1] += int(further)
    for rank, of_rank in enumerate(zip(*counts, strict=True)):
        if len(set(of_rank)) > 1:
            numbers = ", ".join(map(str, of_rank))
            rule = _(
                "must give every rank equally many layers with experts in all of its chunks beside {key}, or forwards "
                "wait for ever; rank {rank} has {numbers}",
                key=OVERLAP,
                rank=rank,
                numbers=numbers,
            )
            raise parallel.error(_LAYERS, rule)
    return Pairs(
        are_run=True,
        unknown=(parallel.place(SPLIT),) if parallel.flag(SPLIT) else (),
        notes=(_("layers without experts are taken to pair as the others do"),) if num_dense else (),
    )
