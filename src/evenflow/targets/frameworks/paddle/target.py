"""Paddle (dynamic graph): a plan as a Python module for the training script and lines of the distributed strategy."""

import json
from collections.abc import Mapping
from itertools import accumulate

from evenflow.adapters import paddle as adapter
from evenflow.adapters.stage_counts import counts_of_kind, stage_counts
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Plan, Recomputation, Scope, SizeRule, Sizes, looped
from evenflow.predict.training import FULL_ATTENTION, Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.degree_rules import check_no_capacity, is_copied
from evenflow.targets.frameworks.paddle.reader import (
    CORE_ATTENTION,
    OF_ATTENTION,
    is_paddle,
    read_plan,
    stated_in_arguments,
)
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

TITLE = "Paddle"


def abilities(version: str) -> Abilities:
    """Return what `PipelineLayer` runs under `fleet.distributed_model`.

    1F1B with one chunk. With several chunks the number of microbatches decides: from two for each rank on, the
    interleaved order whose remainder joins the first group; with as many as ranks, F-then-B; others are refused.
    """

    def enough_ranks(sizes: Sizes, schedule: str) -> bool:
        return sizes.num_chunks == 1 or sizes.num_ranks > 2

    def enough_microbatches(sizes: Sizes, schedule: str) -> bool:
        return schedule != "interleaved" or sizes.num_microbatches >= 2 * sizes.num_ranks

    def several_chunks(sizes: Sizes, schedule: str) -> bool:
        return schedule != "f-then-b" or sizes.num_chunks > 1

    def as_many_as_ranks(sizes: Sizes, schedule: str) -> bool:
        return schedule != "f-then-b" or sizes.num_microbatches == sizes.num_ranks

    return Abilities(
        schedules=("1f1b", "interleaved", "f-then-b"),
        recomputation=(
            Recomputation(scope=Scope.LAYERS, kinds=(FULL, FULL_ATTENTION)),
            Recomputation(scope=Scope.LAYERS, kinds=(CORE_ATTENTION,)),
        ),
        empty=Empty.ENDS,
        sizes=(
            SizeRule(text=_("must be at least 3 with several chunks"), holds=enough_ranks, place="ranks"),
            SizeRule(text=_("must be at least twice the number of ranks"), holds=enough_microbatches),
            SizeRule(text=_("must be at least 2 with F-then-B"), holds=several_chunks, place="chunks"),
            SizeRule(text=_("must be the number of ranks with F-then-B"), holds=as_many_as_ranks),
        ),
    )


def write(plan: Plan, version: str) -> Written:
    """Return a module that puts the plan into a list of layers, its use, and what the strategy needs."""
    layers, recomputed = stage_counts(plan, title=TITLE, beside=OF_ATTENTION)
    attention = counts_of_kind(plan, FULL_ATTENTION)
    names = ["LAYERS", "RECOMPUTED", *(["ATTENTION"] if any(attention) else [])]
    module = (
        "from typing import Any\n\n"
        f"LAYERS = {layers}\n"
        f"RECOMPUTED = {recomputed}\n"
        + (f"ATTENTION = {attention}\n" if any(attention) else "")
        + f"CHUNKS = {plan.num_chunks}\n\n\n"
        f"{adapter.source()}"
    )
    use = (
        f"from evenflow_stages import {', '.join(sorted((*names, 'CHUNKS')))}, staged\n"
        "from paddle.distributed.fleet.meta_parallel import PipelineLayer\n\n"
        "# head, tail: the entries of your list before the first body layer and after the last one\n"
        f"layers, seg_method = staged(layers, {', '.join(names)}, chunks=CHUNKS, head=1, tail=1)\n"
        "model = PipelineLayer(\n"
        f"    layers, num_stages={plan.num_ranks}, num_virtual_pipeline_stages=CHUNKS, seg_method=seg_method,\n"
        "    recompute_interval=0, loss_fn=loss_fn,\n"
        ")\n"
    )
    strategy = _strategy({"pp_degree": plan.num_ranks}, {"accumulate_steps": plan.num_microbatches})
    notes = [_("set head and tail to the entries of your list before and after the body layers")]
    if plan.num_chunks > 1:
        notes += [
            _("best_unbalanced_scheduler and forward_backward_overlap_scheduler run another order: leave them off"),
        ]
    if any(attention):
        notes += [_("layers whose attention alone recomputes must have it as the sub-layer self_attn")]
    arguments = _formers_arguments(plan)
    return Written(
        pieces=(
            Piece(
                title=_("a module beside your training script"),
                syntax="python",
                text=module,
                file_name="evenflow_stages.py",
            ),
            Piece(title=_("in your training script, where it makes the PipelineLayer"), syntax="python", text=use),
            strategy,
            *_of_core_attention(plan),
            *(
                [Piece(title=_("or all of it as arguments of PaddleFormers"), syntax="yaml", text=arguments)]
                if arguments
                else []
            ),
        ),
        notes=tuple(notes),
    )


def write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    """Return the same with the degrees of `fleet`; raises InputError for what it does not share out.

    Groups that share out lie inside data parallel ones; where they are all of these, there are no copies.
    """
    check_no_capacity(planned, title=TITLE)
    degrees = planned.degrees
    if degrees.sharding not in (Sharding.NOTHING, Sharding.OPTIMIZER):
        rule = _("must be ZeRO-1 or data parallelism: fleet shares out no more beside other ways to split")
        remedy = _(
            "plan again with --zero 1 (tune: --fix zero=1), or wrap the model with group_sharded_parallel yourself"
        )
        raise InputError(value=f"ZeRO-{degrees.sharding}", rule=rule, place=_("the plan"), remedy=remedy)
    copies = degrees.data if degrees.sharding is Sharding.NOTHING else planned.replicas
    hybrid = {
        "dp_degree": copies,
        "mp_degree": degrees.tensor,
        "pp_degree": plan.num_ranks,
        "sharding_degree": degrees.data // copies,
        "sep_degree": degrees.context,
    }
    pipeline = {"accumulate_steps": plan.num_microbatches, "micro_batch_size": planned.microbatch}
    notes = [
        _("start it on {devices} devices, node after node", devices=degrees.devices),
        _("a step has {batch} sequences of {tokens} tokens", batch=planned.global_batch, tokens=planned.sequence),
    ]
    if degrees.expert > 1:
        notes.append(_("the layers of experts get a group of {expert} devices", expert=degrees.expert))
    strategy = _strategy(hybrid, pipeline)
    if plan.num_ranks == 1:
        return Written(pieces=(strategy,), notes=tuple(notes))
    written = write(plan, version)
    return Written(pieces=(*written.pieces[:2], strategy), notes=(*written.notes, *notes))


def _strategy(hybrid: Mapping[str, int], pipeline: Mapping[str, int]) -> Piece:
    text = f"strategy.hybrid_configs = {json.dumps(hybrid)}\nstrategy.pipeline_configs = {json.dumps(pipeline)}\n"
    return Piece(title=_("in your training script, before fleet.init"), syntax="python", text=text)


def _formers_arguments(plan: Plan) -> str:
    """Return arguments of PaddleFormers for a `GeneralModelForCausalLMPipe`; empty where there are none.

    They can say any cut into one chunk for each rank, or one into equal stages; and all layers recomputed, or their
    attention, or none.
    """
    layers, recomputed = stage_counts(plan, title=TITLE, beside=OF_ATTENTION)
    modules = [kind for kind in OF_ATTENTION if any(counts_of_kind(plan, kind))]
    for counts in (recomputed, *(counts_of_kind(plan, kind) for kind in modules)):
        if any(counts) and counts != layers:
            return ""
    if plan.num_chunks > 1 and len(set(layers)) > 1:
        return ""
    cuts = [0, *list(accumulate(layers[:-1], initial=1))[1:]]  # the embedding is the first entry
    method = "layer:DecoderLayer|EmptyLayer" if plan.num_chunks > 1 else str(cuts)
    lines = {
        "pipeline_model_parallel_size": plan.num_ranks,
        "virtual_pipeline_model_parallel_size": plan.num_chunks,
        "gradient_accumulation_steps": plan.num_microbatches,
        "pp_seg_method": f'"{method}"',
        "recompute_granularity": "full" if any(recomputed) else "selective" if modules else "null",
    }
    if modules:
        lines |= {"recompute_modules": json.dumps(modules)}
    if any(recomputed):
        lines |= {"recompute_method": "uniform", "recompute_num_layers": 1}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def _of_core_attention(plan: Plan) -> list[Piece]:
    """Return arguments of PaddleNLP for layers that compute the core of attention again, which no sub-layer is.

    Its models do so by themselves, in all layers but those that are listed. [PaddleNLP, `LlamaForCausalLMPipe`]
    """
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    chosen = layers_by_kind(stages).get(CORE_ATTENTION, ())
    if not chosen:
        return []
    others = [layer for layer in range(plan.num_layers) if layer not in chosen]
    text = f"recompute: true\nrecompute_granularity: {CORE_ATTENTION}\nno_recompute_layers: {others}\n"
    title = _("arguments of PaddleNLP, whose models compute the core of attention again by themselves")
    return [Piece(title=title, syntax="yaml", text=text)]


def degree_rules(version: str) -> DegreeRules:
    """Return what Paddle can split. [Paddle: `HybridCommunicateGroup`, `EPHybridCommunicateGroup`]

    A hybrid of several ways shares out the optimizer's state; `group_sharded_parallel` is for data parallelism alone.
    Sequences are exchanged by an all-to-all; experts lie on the ranks that share out, without copies of a model.
    """
    return DegreeRules(
        shardings=(Sharding.NOTHING, Sharding.OPTIMIZER),
        pipeline_shardings=(Sharding.NOTHING, Sharding.OPTIMIZER),
        context_exchange="all-to-all",
        splits_experts=False,
        rules=(
            DegreeRule(
                axis=Axis.CONTEXT,
                text=_("must be 1 where experts are distributed"),
                holds=lambda training: training.degrees.context == 1 or training.degrees.expert == 1,
            ),
            DegreeRule(
                axis=Axis.ZERO,
                text=_("must be at least 1 where experts are distributed"),
                holds=lambda training: (
                    training.degrees.expert == 1 or training.degrees.data == 1 or not is_copied(training)
                ),
            ),
        ),
    )


TARGET = Target(
    name="paddle",
    title=TITLE,
    versions=("3.3.1",),
    checked_with="paddlepaddle 3.3.1",
    page="paddle",
    abilities=abilities,
    write=write,
    write_degrees=write_degrees,
    degree_rules=degree_rules,
    read=read_plan,
    read_degrees=stated_in_arguments,
    recognise=is_paddle,
)
