"""Recomputation and moves to the host by layer for Megatron-LM, whose own flags have one number for all cells.

In a training script of Megatron-LM, around the function that builds a model chunk:

    from evenflow.adapters.megatron import with_plan

    pretrain(datasets_provider, with_plan(model_provider, "plan.json"), ModelType.encoder_or_decoder, forward_step)

In Megatron-Bridge, before the model is made:

    from evenflow.adapters.megatron import plan_hook

    provider.register_pre_wrap_hook(plan_hook("plan.json"))

No flag of recomputation may be set beside. The layers of each cell that the plan recomputes run under Megatron-LM's own
checkpoints: `full` as its method `block` does, with the number of the cell; `select` as its selective recomputation of
core_attn. Layers of multi-token prediction are not recomputed. What moves to the host is by layer as well, with the
flags of the plan beside (see `megatron_moves`).
"""

import copy
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenflow.adapters.megatron_moves import let_move, moves_alone
from evenflow.adapters.stage_counts import given_plan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, SELECT, Plan, ordered_kinds

KINDS = (FULL, SELECT)
"""Recompute kinds that layers can be under, beside sets of modules that move to the host."""


def with_plan(model_provider: Callable[..., Any], plan: Plan | Path | str) -> Callable[..., Any]:
    """Return a model provider whose chunks recompute as a plan says; the chunk is that of its ``vp_stage``.

    Raises:
        InputError: the plan cannot be read or has kinds beside `KINDS`; while a model is built, it is not of the plan.
    """
    cells = _plan(plan)

    @functools.wraps(model_provider)
    def provide(*args: Any, **kwargs: Any) -> Any:
        model = model_provider(*args, **kwargs)
        recompute_chunk(model, cells, chunk=kwargs.get("vp_stage") or 0)
        return model

    return provide


def plan_hook(plan: Plan | Path | str) -> Callable[[Sequence[Any]], Any]:
    """Return a function that lets the model chunks of a rank, in their order, recompute as a plan says.

    Raises:
        InputError: as `with_plan` does.
    """
    cells = _plan(plan)

    def hook(chunks: Sequence[Any]) -> Sequence[Any]:
        if len(chunks) != cells.num_chunks:
            rule = _("must be {chunks} model chunks, as in the plan", chunks=cells.num_chunks)
            raise InputError(value=len(chunks), rule=rule, place=_("the model"))
        for chunk, model in enumerate(chunks):
            recompute_chunk(model, cells, chunk=chunk)
        return chunks

    return hook


def recompute_chunk(model: Any, plan: Plan, *, chunk: int, rank: int | None = None) -> None:
    """Let the layers of one model chunk recompute as `plan` says; `rank` is this process's pipeline rank unless given.

    Raises:
        InputError: the model has no or several blocks of transformer layers, other numbers of layers than the plan, or
            recomputes already; or the flags move other modules than the plan.
    """
    from megatron.core import parallel_state

    rank = parallel_state.get_pipeline_model_parallel_rank() if rank is None else rank
    place = _("the model, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank)
    if not (0 <= chunk < plan.num_chunks and 0 <= rank < plan.num_ranks):
        rule = _("must be a cell of the plan, {chunks} x {ranks}", chunks=plan.num_chunks, ranks=plan.num_ranks)
        raise InputError(rule=rule, place=place)
    block = _block(model, place)
    num_layers = plan.layers[chunk][rank] - plan.mtp_in(chunk, rank)  # those of further tokens are in no block
    _check_block(block, num_layers, place)
    count = min(plan.count(FULL, chunk, rank), num_layers)
    if count:
        # The block reads its configuration at every forward; a copy of its own leaves that of its layers as it is.
        block.config = copy.copy(block.config)
        block.config.recompute_granularity = "full"
        block.config.recompute_method = "block"
        block.config.recompute_num_layers = count
    for layer in block.layers[count : count + plan.count(SELECT, chunk, rank)]:
        if not hasattr(layer.self_attention, "checkpoint_core_attention"):
            rule = _("must have attention in layers under select")
            raise InputError(value=type(layer.self_attention).__name__, rule=rule, place=place)
        layer.self_attention.checkpoint_core_attention = True
    let_move(block.layers, block.config, plan, chunk=chunk, rank=rank, place=place)


def _plan(plan: Plan | Path | str) -> Plan:
    """Return a plan, or that of a file; raises InputError for kinds that cannot run."""
    read = given_plan(plan)
    kinds = set(read.used_kinds)
    other = [kind for kind in ordered_kinds(kinds) if kind not in (*KINDS, NONE) and not moves_alone(kind)]
    if other:
        rule = _("must have kinds that can run: {names}, and sets of modules that move", names=", ".join(KINDS))
        raise InputError(value=other[0], rule=rule, place=_("the plan, recompute"))
    return read


def _block(model: Any, place: str) -> Any:
    """Return the one block of transformer layers in a model chunk, whatever wraps it."""
    from megatron.core.transformer.transformer_block import TransformerBlock

    blocks = [module for module in model.modules() if isinstance(module, TransformerBlock)]
    if len(blocks) != 1:
        raise InputError(value=len(blocks), rule=_("must have one block of transformer layers"), place=place)
    return blocks[0]


def _check_block(block: Any, num_layers: int, place: str) -> None:
    if len(block.layers) != num_layers:
        rule = _("must have the {count} layers of the plan", count=num_layers)
        raise InputError(value=len(block.layers), rule=rule, place=place)
    if block.config.recompute_granularity is not None:
        raise InputError(
            value=block.config.recompute_granularity,
            rule=_("must not recompute by itself"),
            place=place,
            remedy=_("leave out Megatron-LM's flags of recomputation"),
        )
