"""The schedule families by name."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from types import MappingProxyType

from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.joining import SCHEDULES, Registry
from evenflow.language import _
from evenflow.model import looped, v_shaped
from evenflow.schedule.dualpipe_v import dualpipe_v
from evenflow.schedule.eager_1f1b import eager_1f1b
from evenflow.schedule.f_then_b import f_then_b
from evenflow.schedule.family import ScheduleFamily
from evenflow.schedule.interleaved import interleaved
from evenflow.schedule.interleaved_remainder_last import interleaved_remainder_last
from evenflow.schedule.naive import naive
from evenflow.schedule.one_f_one_b import one_f_one_b
from evenflow.schedule.one_f_one_b_overlap import one_f_one_b_overlap
from evenflow.schedule.one_f_one_b_v import one_f_one_b_v, one_f_one_b_v_pattern
from evenflow.schedule.schedule import Schedule
from evenflow.schedule.v_half import v_half, v_half_pattern
from evenflow.schedule.v_min import v_min, v_min_pattern
from evenflow.schedule.zb_h1 import zb_h1
from evenflow.schedule.zb_h2 import zb_h2
from evenflow.schedule.zb_turns import turns_pattern
from evenflow.schedule.zbv import zbv, zbv_pattern

_ONE_CHUNK = "one chunk per rank; any numbers of ranks and microbatches"
_V_SHAPED = (
    "two chunks per rank, the second from the last rank back to the first; any numbers of ranks and microbatches"
)

_OWN: Mapping[str, ScheduleFamily] = MappingProxyType(
    {
        "naive": ScheduleFamily(
            make=naive,
            comparison_only=True,
            idea="one microbatch at a time, forward and backward through all stages; one rank works at a time",
            memory="1",
            bubble="(p-1)/p",
            paper="GPipe, arXiv:1811.06965, figure 2b",
        ),
        "f-then-b": ScheduleFamily(
            make=f_then_b,
            idea="all forwards, then all backwards",
            memory="m",
            bubble="x / (x + v m) with x = p-1 + (v-1) max(0, p-m)",
            paper="GPipe, arXiv:1811.06965, §2.3",
        ),
        "1f1b": ScheduleFamily(
            make=one_f_one_b,
            num_chunks=1,
            idea="after a warm-up, one forward and one backward in turn",
            limits=_ONE_CHUNK,
            memory="min(m, p-r)",
            bubble="(p-1)/(p-1 + m)",
            paper="PipeDream-2BW, arXiv:2006.09503, §3.2",
        ),
        "eager-1f1b": ScheduleFamily(
            make=eager_1f1b,
            num_chunks=1,
            idea="1F1B with a longer warm-up, which hides messages between ranks",
            limits=_ONE_CHUNK,
            memory="min(m, 2(p-r)-1)",
            bubble="(p-1)/(p-1 + m)",
            paper="Zhuang et al., arXiv:2211.05322",
        ),
        "interleaved": ScheduleFamily(
            make=partial(interleaved, less_memory=False),
            fewest_chunks=2,
            has_groups=True,
            idea="1F1B over several chunks per rank, in groups of p microbatches or more; what is left joins the first",
            memory="min(v m, (v-1) g + 2(p-r)-1) / v, for m >= p, with g = p + m mod p",
            bubble="x / (x + v m) with x = p-1 + (v-1) max(0, p-m), in groups of p or more",
            paper="Megatron-LM, arXiv:2104.04473, §2.2",
        ),
        "interleaved-less-memory": ScheduleFamily(
            make=partial(interleaved, less_memory=True),
            fewest_chunks=2,
            has_groups=True,
            idea="interleaved 1F1B with the shortest warm-up that costs no time",
            memory="min(v m, (v-1) g + p-r) / v, for m >= p, with g = p + m mod p",
            bubble="x / (x + v m) with x = p-1 + (v-1) max(0, p-m), in groups of p or more",
            paper="Megatron-LM, arXiv:2104.04473, §2.2",
        ),
        "1f1b-v": ScheduleFamily(
            make=one_f_one_b_v,
            patterns=(one_f_one_b_v_pattern,),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            idea="two chunks on a V; whole backwards, two thirds of the activations of 1F1B and smaller bubbles",
            limits=_V_SHAPED,
            memory="min(m, 2p//3 + 1)",
            bubble="at most 5(p-1) / (5(p-1) + 6m) for b = 2f and m >= p",
            paper="Controllable memory, arXiv:2405.15362, §4",
        ),
        "zb-h1": ScheduleFamily(
            make=zb_h1,
            patterns=(partial(turns_pattern, ahead=1),),
            num_chunks=1,
            idea="1F1B with split backwards; weight gradients (w) wait to fill the cool-down after input gradients (i)",
            limits=_ONE_CHUNK,
            memory="min(m, p), until the weight gradient",
            bubble="(p-1) x / ((p-1) x + m (f+i+w)) with x = max(f, i, f+i-w), for m >= p",
            paper="ZeroBubble, arXiv:2401.10241, §2.1",
        ),
        "zb-h2": ScheduleFamily(
            make=zb_h2,
            patterns=(partial(turns_pattern, ahead=2), partial(turns_pattern, ahead=3)),
            num_chunks=1,
            idea="ZB-H1 with twice the warm-up, so that no rank waits between its own actions",
            limits=_ONE_CHUNK,
            memory="min(m, 2p-1), until the weight gradient",
            bubble="(p-1) x / ((p-1) x + m (f+i+w)) with x = max(f, i-f, f+i-2w), for m >= 2p-1",
            paper="ZeroBubble, arXiv:2401.10241, §2.2",
        ),
        "zbv": ScheduleFamily(
            make=zbv,
            patterns=(zbv_pattern,),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            idea="two chunks on a V; split backwards leave no rank waiting between its own actions",
            limits=_V_SHAPED,
            memory="min(m, p), until the weight gradient",
            bubble="(p-1) x / ((p-1) x + 2m (f+i+w)) with x = max(2f-i, i, w, 2(i-w)), for m >= 2p-1, unless f > i > w",
            paper="ZeroBubble, arXiv:2401.10241, §6; arXiv:2405.15362, §3",
        ),
        "v-half": ScheduleFamily(
            make=v_half,
            patterns=(v_half_pattern,),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            idea="ZB-V with half the activations, for some bubbles",
            limits=_V_SHAPED,
            memory="min(m, p//2 + 1), until the weight gradient",
            bubble="x / (x + 6m) with x = 3p-7 for even and 3p-4 for odd p, for f = i = w, p >= 3 and m >= 3p/4 + 1",
            paper="Controllable memory, arXiv:2405.15362, §3",
        ),
        "v-min": ScheduleFamily(
            make=v_min,
            patterns=(v_min_pattern,),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            idea="ZB-V with a third of the activations, for more bubbles",
            limits=_V_SHAPED,
            memory="min(m, (p+4)//3), until the weight gradient",
            bubble="x / (x + 6m) with x = 4p-7 where 3 divides p, else 4p-5, for f = i = w, p >= 3 and m >= 2p/3 + 1",
            paper="Controllable memory, arXiv:2405.15362, §3",
        ),
        "dualpipe-v": ScheduleFamily(
            make=dualpipe_v,
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            idea="two chunks on a V; in the steady phase every forward stands beside a backward of the other chunk",
            limits=_V_SHAPED,
            memory="p + 1/2 for m >= 2p",
            bubble="(p-1) / (p-1 + 6m) for f = i = w and m >= 2p: only fill and drain",
            paper="DeepSeek-V3, arXiv:2412.19437, §3.2.1; DualPipe-V of its public implementation",
        ),
        "1f1b-overlap": ScheduleFamily(
            make=one_f_one_b_overlap,
            num_chunks=1,
            has_pairs=True,
            idea="1F1B whose forwards run beside backwards, so that each computes while the other exchanges tokens",
            limits=_ONE_CHUNK,
            memory="min(m, 2(p-r))",
            bubble="(p-1) / (p-1 + m), where a pair takes as long as its two parts",
            paper="Megatron-LM, overlap_moe_expert_parallel_comm",
        ),
        "interleaved-overlap": ScheduleFamily(
            make=partial(interleaved, in_pairs=True),
            fewest_chunks=2,
            has_groups=True,
            has_pairs=True,
            idea="interleaved 1F1B whose forwards run beside backwards, with one more forward in the warm-up",
            memory="min(v m, (v-1) g + 2(p-r)) / v, for m >= p, with g = p + m mod p",
            bubble="that of interleaved, where a pair takes as long as its two parts",
            paper="Megatron-LM, overlap_moe_expert_parallel_comm",
        ),
        "dualpipe-v-overlap": ScheduleFamily(
            make=partial(dualpipe_v, in_pairs=True),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            has_pairs=True,
            idea="DualPipe-V whose neighbouring forwards and backwards run beside each other",
            limits=_V_SHAPED,
            memory="p + 1/2 for m >= 2p",
            bubble="that of dualpipe-v and more, where a pair takes as long as its two parts",
            paper="DeepSeek-V3, arXiv:2412.19437, §3.2.1; DualPipe-V of its public implementation",
        ),
        "zbv-overlap": ScheduleFamily(
            make=partial(zbv, in_pairs=True),
            num_chunks=2,
            is_v_shaped=True,
            can_split=False,
            has_pairs=True,
            idea="ZB-V with whole backwards where both gradients follow one another, and forwards beside them",
            limits=_V_SHAPED,
            memory="min(m, p), until the weight gradient",
            bubble="that of zbv and more, where a pair takes as long as its two parts",
            paper="Controllable memory, arXiv:2405.15362, §3",
        ),
        "interleaved-remainder-last": ScheduleFamily(
            make=interleaved_remainder_last,
            fewest_chunks=2,
            has_groups=True,
            comparison_only=True,
            can_split=False,
            idea="interleaved 1F1B with the remainder of microbatches as a last, smaller group; for comparison",
            limits="with a remainder from 1 (from 2 for two chunks) to p-3 ranks wait in a circle, and it is refused",
            memory="min(v m, (v-1) p + 2(p-r)-1) / v for m >= p",
            bubble="(p-1)/(p-1 + v m) if p divides m, else more",
            paper="Megatron-LM, arXiv:2104.04473, §2.2, continued for a remainder",
        ),
    }
)

FAMILIES: Registry[ScheduleFamily] = Registry(_OWN, SCHEDULES, ScheduleFamily)
"""Every schedule family by its canonical name, the one that ``evenflow schedules`` lists.

evenflow's own come first, then those that installed packages bring.
"""

ALIASES: Mapping[str, str] = MappingProxyType(
    {"gpipe": "f-then-b", "breadth-first": "f-then-b", "pipedream-flush": "1f1b", "seq1f1b": "1f1b"}
)
"""Canonical name of a family by each other name that it is known under."""

ALIAS_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "gpipe": "with one chunk per rank [arXiv:1811.06965]",
        "breadth-first": "with several chunks per rank: looped breadth-first [arXiv:2211.05953]",
        "pipedream-flush": "under the name of its paper [arXiv:2006.09503, §3.2]",
        "seq1f1b": "with sequences in k parts (--sequence-splits k): m k instead of m [arXiv:2406.03488, §3]",
    }
)
"""What each alias stands for beside its family: the number of chunks, or the paper that uses the name."""


def default_family(*, num_chunks: int, less_memory: bool = False) -> str:
    """Return the name of the default family for a number of chunks: 1F1B for one, interleaved for more."""
    if num_chunks == 1:
        return "1f1b"
    return "interleaved-less-memory" if less_memory else "interleaved"


def family_name(name: str, *, also: Sequence[str] = (), place: str = "schedule") -> str:
    """Return the canonical name of a family; raise InputError with the nearest valid name for an unknown one.

    `also` are words that are valid where the name stands; a message lists them, and they are returned as they are.
    `place` is what a message calls the place of the name.
    """
    canonical = ALIASES.get(name.lower(), name.lower())
    valid = [*FAMILIES, *ALIASES, *also]
    if canonical not in valid:
        near = nearest(canonical, valid)
        if canonical in ("dualpipe", "dualpipe-overlap"):
            raise InputError(
                value=name,
                rule=_("must be one of {names}", names=", ".join(valid)),
                place=place,
                remedy=_(
                    "DualPipe is two copies of {family} on half of the ranks each, with half of the microbatches:"
                    " plan that",
                    family=canonical.replace("dualpipe", "dualpipe-v"),
                ),
            )
        raise InputError(
            value=name,
            rule=_("must be one of {names}", names=", ".join(valid)),
            place=place,
            remedy=_("did you mean {near}?", near=near) if near else "",
        )
    return canonical


def chunk_count(name: str, requested: int | None) -> int:
    """Return the chunks per rank of family `name`: the number asked for, or else the only one that it has, or one.

    Raises InputError where the family does not have the number asked for.
    """
    fixed = FAMILIES[family_name(name)].num_chunks
    if requested is not None and fixed not in (None, requested):
        remedy = (
            _("take one chunk, or interleaved") if fixed == 1 else _("take {fixed} chunks, or interleaved", fixed=fixed)
        )
        raise InputError(
            value=requested,
            rule=_("must be {fixed} per rank for {name}", fixed=fixed, name=name),
            place="chunks",
            remedy=remedy,
        )
    return requested or fixed or 1


def family_placement(name: str, *, num_ranks: int, num_chunks: int) -> tuple[int, ...]:
    """Return the rank of every stage under family `name`, which has this number of chunks."""
    if FAMILIES[family_name(name)].is_v_shaped:
        return v_shaped(num_ranks=num_ranks)
    return looped(num_ranks=num_ranks, num_chunks=num_chunks)


def make_schedule(
    name: str,
    *,
    num_ranks: int,
    num_chunks: int,
    num_microbatches: int,
    sequence_splits: int = 1,
    group_size: int | None = None,
) -> Schedule:
    """Return the schedule of family `name` for these sizes; raise InputError for sizes that it does not have.

    `group_size` is the number of microbatches of a group in an interleaved family (None: the usual one).
    """
    name = family_name(name)
    family = FAMILIES[name]
    sizes = {"num_ranks": num_ranks, "num_microbatches": num_microbatches}
    chunk_count(name, num_chunks)
    if family.num_chunks is None:
        sizes["num_chunks"] = num_chunks
    if family.can_split:
        sizes["sequence_splits"] = sequence_splits
    elif sequence_splits != 1:
        rule = _("must be 1 for {name}, which does not split sequences", name=name)
        raise InputError(value=sequence_splits, rule=rule, place=_("sequence splits"))
    if group_size is not None:
        if not family.has_groups:
            raise InputError(
                value=group_size,
                rule=_("must not be given for {name}, which has no groups of microbatches", name=name),
                place=_("group size"),
                remedy=_("leave it out, or use interleaved"),
            )
        sizes["group_size"] = group_size
    return family.make(**sizes)


def family_of(schedule: Schedule) -> Schedule:
    """Return the order of a family that is the same as `schedule`; `schedule` itself where no family has it."""
    for name, family in sorted(FAMILIES.items(), key=lambda item: item[1].comparison_only):
        if family.has_chunks(schedule.num_chunks):
            try:
                named = make_schedule(name, **asdict(schedule.sizes))
            except InputError:  # sizes that the family does not have
                continue
            if named.same_order(schedule):
                return named
    return schedule
