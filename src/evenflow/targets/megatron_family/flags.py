"""A plan in the flags of Megatron-LM's training scripts, and what Megatron-LM can run."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

from evenflow.language import _
from evenflow.model import (
    FULL,
    SELECT,
    Abilities,
    Empty,
    Groups,
    Mtp,
    Plan,
    Recomputation,
    ScheduleLimits,
    Scope,
    SizeRule,
    even_cut,
    segment_kind,
    segment_length,
)
from evenflow.predict.training import MOVED_MODULES, MOVES, is_possible_set, moved_chain, moved_of, set_kind, sets_among
from evenflow.targets.megatron_family.layout import format_plan
from evenflow.targets.target import Piece

Flags = Mapping[str, tuple[str, ...]]
"""The values of every flag, by its name with both hyphens."""

LAYOUT_FLAG = "--pipeline-model-parallel-layout"
GROUP_SIZE = "--microbatch-group-size-per-virtual-pipeline-stage"
CUT_FLAGS = (
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--account-for-embedding-in-pipeline-split",
    "--account-for-loss-in-pipeline-split",
)
"""Flags that Megatron-LM refuses beside a layout."""
RECOMPUTE_FLAGS = (
    "--recompute-activations",
    "--recompute-granularity",
    "--recompute-method",
    "--recompute-num-layers",
    "--recompute-modules",
    "--distribute-saved-activations",
    "--checkpoint-activations",
    "--checkpoint-num-layers",
    "--distribute-checkpointed-activations",
    "--activations-checkpoint-method",
    "--activations-checkpoint-num-layers",
)
"""Flags of recomputation, those of Megatron-LM 2 as well."""
OFFLOAD_FLAGS = (
    "--fine-grained-activation-offloading",
    "--offload-modules",
    "--activation-offload-fraction",
    "--delta-offload-bytes-across-pp-ranks",
)
"""Flags of activations on the host."""
PAIR_FLAG = "--overlap-moe-expert-parallel-comm"
"""Flag of forwards beside backwards."""
DELAY_FLAG = "--delay-wgrad-compute"
"""Flag that Megatron-LM refuses without them."""
RELEASE_FLAG = "--ep-overlap-early-attn-memory-release"
"""Flag of another order inside of pairs, which Megatron-LM refuses without them too."""
DECIDED_FLAGS = (*CUT_FLAGS, LAYOUT_FLAG, GROUP_SIZE, PAIR_FLAG, RELEASE_FLAG, *RECOMPUTE_FLAGS)
"""Flags that a plan decides, by being there or not."""


def megatron_abilities(recomputation: tuple[Recomputation, ...], *, in_pairs: bool = False) -> Abilities:
    """Return what Megatron-LM can run, with the given ways of recomputing; `in_pairs` with forwards beside backwards.

    Two ranks may have chunks while messages between ranks overlap with computation, as they do unless
    ``--no-overlap-p2p-communication`` is given. [Megatron-LM, `validate_args`]
    """
    return Abilities(
        schedules=("1f1b", "interleaved", *(PAIRED if in_pairs else ())),
        whole_layers=True,
        delays_weights=in_pairs,
        recomputation=recomputation,
        limits=dict.fromkeys(PAIRED, _IN_PAIRS),
        empty=Empty.ANY,
        mtp=Mtp.LAST_CHUNK,
        keeps_mtp=True,
        groups=Groups.MEGATRON,
        sizes=(
            SizeRule(
                text=_("must be at least 2 with several chunks"),
                holds=lambda sizes, schedule: sizes.num_ranks > 1 or sizes.num_chunks == 1,
                place="ranks",
            ),
            SizeRule(
                text=_("must be at least 2 under an interleaved schedule"),
                holds=lambda sizes, schedule: schedule not in _INTERLEAVED or sizes.num_chunks > 1,
                place="chunks",
            ),
            SizeRule(
                text=_("must be 1 where one chunk runs forwards beside backwards"),
                holds=lambda sizes, schedule: schedule != PAIRED[0] or sizes.num_ranks == 1,
                place="ranks",
            ),
        ),
    )


def without_layout_abilities(ways: tuple[Recomputation, ...] | None = None) -> Abilities:
    """Return what Megatron-LM runs without layouts: equal cells, and microbatches that are a multiple of the ranks."""
    return replace(
        megatron_abilities(STOCK_WAYS if ways is None else ways),
        empty=Empty.NONE,
        mtp=Mtp.LAST_STAGE,
        keeps_mtp=False,
        own_cut=even_cut,
        groups=Groups.MULTIPLE,
    )


_SEGMENTS = tuple(segment_kind(length) for length in range(2, 129))
STOCK_WAYS = (Recomputation(scope=Scope.COUNT), Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT, *_SEGMENTS)))
"""Recomputation by Megatron-LM's own flags: the first K layers of every cell, or the same in all layers, which may be
segments (the method ``uniform``).
"""
_MODULES = ("core_attn", "layernorm", "mlp", "moe", "moe_act", "mla_up_proj")
"""Modules that every version of Megatron Core with ``--recompute-modules`` can compute again."""
_SETS = tuple(modules for size in range(1, len(_MODULES) + 1) for modules in combinations(_MODULES, size))
MODULE_SETS = tuple(map(set_kind, _SETS))
"""Recompute kinds that are sets of modules, of which one is for all layers."""
WAYS_WITH_SETS = (STOCK_WAYS[0], Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT, *_SEGMENTS, *MODULE_SETS)))
"""As `STOCK_WAYS`, with any set of modules."""


_MOVES = [f"{MOVES}{module}" for module in MOVED_MODULES]
_MOVED = [modules for size in range(1, len(_MOVES) + 1) for modules in combinations(_MOVES, size)]
MOVED_SETS = tuple(set_kind(modules) for modules in _MOVED if is_possible_set(modules))
"""Recompute kinds that are sets of modules whose inputs move to the host."""


@cache
def ways_with_moves(*, in_share: bool = False) -> tuple[Recomputation, ...]:
    """Return the same, with any set of modules whose inputs move to the host as well, or a share of them.

    `in_share` says whether Megatron-LM knows `--activation-offload-fraction`.
    """
    every = (again + more for again in ((), *_SETS) for more in _MOVED if is_possible_set((*again, *more)))
    counted, alike = WAYS_WITH_SETS
    ways = replace(alike, kinds=(*alike.kinds, *map(set_kind, every)))
    return (counted, replace(ways, chain=moved_chain) if in_share else ways)


PAIRED = ("1f1b-overlap", "interleaved-overlap")
"""Schedules that run forwards beside backwards, with one chunk on one rank and with several chunks."""
_INTERLEAVED = ("interleaved", PAIRED[1])
_IN_PAIRS = ScheduleLimits(
    kinds=(SELECT, *(set_kind(modules) for modules in _SETS if "moe" not in modules)), most_mtp=1
)
"""What Megatron-LM keeps to beside `PAIR_FLAG`. [`TransformerConfig.__post_init__`]"""
OLD_WAYS = (Recomputation(scope=Scope.MODEL, kinds=(FULL,)),)
"""Recomputation by the flags of Megatron-LM 2: of all layers or of none."""


def plan_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags that cut the network and order the work; the layout decides the chunks as well."""
    flags: dict[str, tuple[str, ...]] = {
        "--num-layers": (str(plan.num_layers - plan.mtp_layers),),
        **({"--mtp-num-layers": (str(plan.mtp_layers),)} if plan.mtp_layers else {}),
        "--pipeline-model-parallel-size": (str(plan.num_ranks),),
        LAYOUT_FLAG: (format_plan(plan),),
    }
    return {**flags, **group_flags(plan), **_pair_flags(plan)}


def _pair_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags of forwards beside backwards, where there are some."""
    if plan.schedule not in PAIRED:
        return {}
    delays, releases = bool(plan.delays_weights), plan.releases_attention
    return {PAIR_FLAG: (), **({DELAY_FLAG: ()} if delays else {}), **({RELEASE_FLAG: ()} if releases else {})}


def group_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flag of the microbatches that go through a chunk together; none where a plan does not say it."""
    if plan.num_chunks == 1 or plan.group_size is None:
        return {}
    return {GROUP_SIZE: (str(plan.group_size),)}


def even_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags of equal cells, for a Megatron-LM without layouts."""
    flags: dict[str, tuple[str, ...]] = {
        "--num-layers": (str(plan.num_layers),),
        "--pipeline-model-parallel-size": (str(plan.num_ranks),),
    }
    if plan.num_chunks > 1:
        flags["--num-layers-per-virtual-pipeline-stage"] = (str(plan.layers[0][0]),)
    return flags


def recompute_flags(plan: Plan, *, has_modules: bool = True) -> dict[str, tuple[str, ...]]:
    """Return the flags for the recomputation of a plan that keeps to `STOCK_WAYS`; none where nothing is recomputed.

    `has_modules` says whether selective recomputation names modules; before, it was core attention alone. The method
    `block` recomputes the first layers of every cell, as many as it has up to the number.
    [Megatron-LM, `TransformerBlock._checkpointed_forward`]
    """
    if most := max(map(max, plan.recompute.get(FULL, ((0,),)))):
        return {
            "--recompute-granularity": ("full",),
            "--recompute-method": ("block",),
            "--recompute-num-layers": (str(most),),
        }
    for kind in plan.used_kinds:
        if length := segment_length(kind):
            return {
                "--recompute-granularity": ("full",),
                "--recompute-method": ("uniform",),
                "--recompute-num-layers": (str(length),),
            }
    sets = sets_among(_whole_kinds(plan))
    if sets:
        again = tuple(module for module in sets[0] if not module.startswith(MOVES))
        flags = {"--recompute-granularity": ("selective",), "--recompute-modules": again} if again else {}
        flags |= offload_flags(plan)
        if plan.moved_share is not None:
            flags[OFFLOAD_FLAGS[2]] = (f"{plan.moved_share.share:g}",)
            if plan.moved_share.kept_bytes:
                flags[OFFLOAD_FLAGS[3]] = (str(plan.moved_share.kept_bytes),)
        return flags
    if any(map(any, plan.recompute.get(SELECT, ()))):
        modules = {"--recompute-modules": ("core_attn",)} if has_modules else {}
        return {"--recompute-granularity": ("selective",), **modules}
    return {}


def offload_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags of the modules whose inputs a plan moves to the host in any layer."""
    moved = moved_modules(plan)
    return {OFFLOAD_FLAGS[0]: (), OFFLOAD_FLAGS[1]: moved} if moved else {}


def moved_modules(plan: Plan) -> tuple[str, ...]:
    """Return the modules whose inputs a plan moves to the host, in all its layers or in a share of them."""
    moved = {module for modules in sets_among(_whole_kinds(plan)) for module in moved_of(modules)}
    return tuple(module for module in MOVED_MODULES if module in moved)


def _whole_kinds(plan: Plan) -> tuple[str, ...]:
    """Return the recompute kinds of a plan, of one that moves a share the kind of which that is."""
    return plan.used_kinds if plan.moved_share is None else (plan.moved_share.kind,)


def offload_environment(plan: Plan) -> dict[str, str]:
    """Return the variable without which Transformer Engine moves parameters to the host as well, from 2.10 on."""
    return {"NVTE_CPU_OFFLOAD_V1": "1"} if moved_modules(plan) else {}


def old_recompute_flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags for the recomputation of a plan that keeps to `OLD_WAYS`, for Megatron-LM 2."""
    return {"--checkpoint-activations": ()} if plan.used_kinds else {}


def shell_words(flags: Flags) -> list[str]:
    """Return one line for each flag, safe for a shell."""
    return [shlex.join((flag, *values)) for flag, values in flags.items()]


def shell_array(name: str, flags: Flags) -> str:
    """Return the definition of a shell array of the flags."""
    return array_of_lines(name, shell_words(flags))


def array_of_lines(name: str, lines: Iterable[str]) -> str:
    """Return the definition of a shell array with these words, which are safe for a shell, on lines of their own."""
    return "".join([f"{name}=(\n", *(f"    {line}\n" for line in lines), ")\n"])


def flags_piece(name: str, flags: Flags) -> Piece:
    """Return the flags as the shell array `name`, with what to do with it."""
    return Piece(
        title=_("flags of the training script: add {array} to its command", array=f'"${{{name}[@]}}"'),
        syntax="shell",
        text=shell_array(name, flags),
    )


def batch_note(plan: Plan) -> str:
    """Return what the batch must be for the microbatches of a plan."""
    return _(
        "--global-batch-size must be {count} x --micro-batch-size x the data-parallel size",
        count=plan.num_microbatches,
    )


def plan_notes(plan: Plan, *, of_pairs: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return what has no flag of its own, or is easily wrong beside the flags; `of_pairs` in place of `pair_notes`."""
    notes = [batch_note(plan)]
    if not plan.mtp_layers:
        notes.append(_("with multi-token prediction, put one m for each of its layers before L in the layout"))
    if plan.num_chunks > 1 and plan.num_ranks == 2:
        notes.append(_("with 2 ranks, chunks need the overlap of messages: no --no-overlap-p2p-communication"))
    return (*notes, *(pair_notes(plan) if of_pairs is None else of_pairs), *recompute_notes(plan))


def pair_notes(plan: Plan) -> tuple[str, ...]:
    """Return what forwards beside backwards need that a plan does not decide."""
    if plan.schedule not in PAIRED:
        return ()
    delayed = _(
        "{flag} needs Transformer Engine 2.3 or later, 2.7 without the fusion of gradient accumulation, 2.8 where"
        " gradients are reduced meanwhile (--overlap-grad-reduce)",
        flag=DELAY_FLAG,
    )
    return (
        *((delayed,) if plan.delays_weights else ()),
        _(
            "forwards beside backwards need expert-parallel devices, bf16 or fp16, the token dispatcher alltoall or"
            " flex, and shared experts without an overlap of their own"
        ),
        _(
            "set CUDA_DEVICE_MAX_CONNECTIONS=32, or 1 where tensor or context ranks on Hopper or older devices matter"
            " more"
        ),
    )


def recompute_notes(plan: Plan) -> tuple[str, ...]:
    """Return what must be known of the modules that a plan computes again or moves to the host."""
    notes = []
    if moved_modules(plan):
        notes.append(_("moving activations to the host needs the implementation of Transformer Engine"))
        notes.append(
            _(
                "by Megatron-LM's issue 7398, activations may be copied back before they have reached the host: check "
                "the gradients of a step against one without these flags"
            )
        )
    if any(map(any, plan.recompute.get(SELECT, ()))):
        notes.append(
            _("select becomes the recomputation of core_attn: the numbers for select must be measured with that")
        )
    return tuple(notes)
