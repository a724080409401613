"""ColossalAI: layers and checkpointed layers of every stage, as arguments of its plugin for hybrid parallelism."""

from collections.abc import Iterator, Mapping, Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Groups, Plan, Recomputation, Scope, SizeRule
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.schedule import FAMILIES, family_placement
from evenflow.targets.degree_rules import check_no_capacity, experts_among_data, whole_kv_heads
from evenflow.targets.stages import stages_of
from evenflow.targets.target import Piece, Target, Written
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_PLUGIN, _MIXTURE = "HybridParallelPlugin", "MoeHybridParallelPlugin"
_ON_A_V = ("1f1b-v", "zbv", "v-half", "v-min", "dualpipe-v")
"""Families that its zero-bubble scheduler runs from nodes."""


def _abilities(version: str) -> Abilities:
    return Abilities(
        schedules=("1f1b", "interleaved", *_ON_A_V),
        recomputation=(Recomputation(scope=Scope.LAYERS, kinds=(FULL,)),),
        empty=Empty.NONE,
        groups=Groups.MULTIPLE,
        sizes=(
            SizeRule(
                text=_("must be at least 2"),
                holds=lambda sizes, schedule: sizes.num_ranks > 1,
                place="ranks",
            ),
            SizeRule(
                text=lambda sizes: _("must be at least the number of ranks ({num_ranks})", num_ranks=sizes.num_ranks),
                holds=lambda sizes, schedule: sizes.num_microbatches >= sizes.num_ranks,
            ),
            SizeRule(
                text=lambda sizes: _(
                    "must be a multiple of the number of ranks ({num_ranks}) with several chunks",
                    num_ranks=sizes.num_ranks,
                ),
                holds=lambda sizes, schedule: sizes.num_chunks == 1 or sizes.num_microbatches % sizes.num_ranks == 0,
            ),
        ),
    )


def _write(plan: Plan, version: str) -> Written:
    return _written(plan, {"tp_size": 1}, plugin=_PLUGIN, comment="  # and your other arguments")


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_no_capacity(planned, title="ColossalAI")
    degrees = planned.degrees
    most = Sharding.GRADIENTS if plan.num_ranks == 1 else Sharding.OPTIMIZER
    if degrees.sharding > most:
        rule = _("must be at most ZeRO-{most} for ColossalAI", most=most)
        raise InputError(value=f"ZeRO-{degrees.sharding}", rule=rule, place=_("the plan"))
    arguments: dict[str, object] = {"tp_size": degrees.tensor, "zero_stage": int(degrees.sharding)}
    if degrees.expert > 1:
        arguments["ep_size"] = degrees.expert
    if degrees.context > 1:
        arguments |= {
            "sp_size": degrees.context,
            "enable_sequence_parallelism": True,
            "sequence_parallelism_mode": "ring_attn",
        }
    elif degrees.tensor > 1 and degrees.sequence_parallel:
        arguments |= {"enable_sequence_parallelism": True, "sequence_parallelism_mode": "split_gather"}
    written = _written(plan, arguments, plugin=_MIXTURE if degrees.expert > 1 else _PLUGIN, comment="")
    batch = _(
        "each data rank gets {count} x {microbatch} sequences of {tokens} tokens in a step",
        count=planned.num_microbatches,
        microbatch=planned.microbatch,
        tokens=planned.sequence,
    )
    start = _("start it on {devices} devices, node after node", devices=degrees.devices)
    return Written(pieces=written.pieces, notes=(*written.notes, batch, start))


def _written(plan: Plan, arguments: Mapping[str, object], *, plugin: str, comment: str) -> Written:
    """Return the code that makes a plugin with these arguments, the first of them with a comment."""
    on_a_v = FAMILIES[plan.schedule].is_v_shaped
    recomputes = any(map(any, plan.recompute.get(FULL, ())))
    (first, *others) = [f"    {name}={value!r}," for name, value in arguments.items()]
    head = [f"{first}{comment}", *others]
    text = "\n".join(_lines(plan, plugin, head, on_a_v=on_a_v, recomputes=recomputes)) + "\n"
    notes = []
    if recomputes:
        call = "model.gradient_checkpointing_enable({})".format(
            'gradient_checkpointing_kwargs={"use_reentrant": False}' if on_a_v else ""
        )
        notes.append(_("call {call} before the model is boosted", call=call))
    else:
        notes.append(_("do not enable gradient checkpointing of the model"))
    if on_a_v:
        notes.append(_("plan.json is the file of this plan, which {command} writes", command="evenflow plan --json"))
    return Written(
        pieces=(Piece(title=_("code for the training script"), syntax="python", text=text),), notes=tuple(notes)
    )


def _lines(plan: Plan, plugin: str, arguments: Sequence[str], *, on_a_v: bool, recomputes: bool) -> Iterator[str]:
    """Yield the lines of the code.

    Layers are listed in the order of the network, checkpointed layers by chunk and rank; on a V these differ.
    """
    style = "zbv" if on_a_v else "interleaved" if plan.num_chunks > 1 else "1f1b"
    placement = family_placement(plan.schedule, num_ranks=plan.num_ranks, num_chunks=plan.num_chunks)
    layers = [len(stage.layers) for stage in stages_of(plan, placement)]
    yield f"from colossalai.booster.plugin import {plugin}"
    if recomputes:
        yield "from colossalai.shardformer import PipelineGradientCheckpointConfig"
    if on_a_v:
        yield ""
        yield "from evenflow.adapters.colossalai import scheduler_nodes"
    yield ""
    yield f"plugin = {plugin}("
    yield from arguments
    yield f"    pp_size={plan.num_ranks},"
    yield f'    pp_style="{style}",'
    yield f"    num_model_chunks={plan.num_chunks},"
    yield f"    num_microbatches={plan.num_microbatches},"
    if plan.num_chunks == 1:
        yield f"    num_layers_per_stage={layers},"
    if recomputes:
        counts = [count for row in plan.recompute[FULL] for count in row]
        yield "    gradient_checkpoint_config=PipelineGradientCheckpointConfig("
        yield f"        num_ckpt_layers_per_stage={counts}"
        yield "    ),"
    if on_a_v:
        yield '    scheduler_nodes=scheduler_nodes("plan.json"),'
    yield ")"
    if plan.num_chunks > 1:
        yield "# The plugin takes a list for one chunk only; the model is cut later, by this one."
        yield f"plugin.stage_manager.num_layers_per_stage = {layers}"


def _degree_rules(version: str) -> DegreeRules:
    """Return what its plugins for hybrid parallelism can split.

    Sequences are split in one of several modes: as tensor ranks, or around a ring of others. The plugin for experts
    distributes them over data ranks, splits each as tensor, and turns ZeRO-2 off. [ColossalAI: `HybridParallelPlugin`,
    `MoeHybridParallelPlugin`, `MixtralPolicy`]
    """
    return DegreeRules(
        shardings=(Sharding.NOTHING, Sharding.OPTIMIZER, Sharding.GRADIENTS),
        pipeline_shardings=(Sharding.NOTHING, Sharding.OPTIMIZER),
        rules=(
            whole_kv_heads(),
            DegreeRule(
                axis=Axis.CONTEXT,
                text=_("must be 1 beside tensor ranks, which split sequences already, and with experts"),
                holds=lambda training: (
                    training.degrees.context == 1 or (training.degrees.tensor == 1 and training.model.experts is None)
                ),
            ),
            experts_among_data(),
            DegreeRule(
                axis=Axis.EXPERT_TENSOR,
                text=lambda training: _("must be {number}", number=training.degrees.tensor),
                holds=lambda training: (
                    training.model.experts is None or expert_tensor(training) == training.degrees.tensor
                ),
            ),
            DegreeRule(
                axis=Axis.ZERO,
                text=_("must be at most 1 for a model with experts"),
                holds=lambda training: (
                    training.model.experts is None or training.degrees.sharding is not Sharding.GRADIENTS
                ),
            ),
        ),
    )


TARGET = Target(
    name="colossalai",
    title="ColossalAI",
    versions=("0.5.0",),
    checked_with="colossalai 0.5.0",
    page="colossalai",
    abilities=_abilities,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=_degree_rules,
)
