"""Why a framework cannot run a plan, by its abilities alone."""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import (
    FULL,
    NONE,
    OFFLOAD,
    Abilities,
    Empty,
    Groups,
    Mtp,
    Plan,
    Recomputation,
    Scope,
    has_whole_segments,
    moves,
    segment_length,
)
from evenflow.schedule import group_allowed, schedule_of, usual_group_size
from evenflow.targets.stages import stages_of


def refusal(plan: Plan, abilities: Abilities, *, title: str) -> InputError | None:
    """Return the first reason why a framework with these abilities cannot run `plan`; None where it can.

    `title` is the framework's name for people.
    """
    named = None if not plan.order or abilities.of_order is None else abilities.of_order(plan)
    of_plan = named or (abilities if plan.order else abilities.under(plan.schedule))
    return next(_refusals(plan, of_plan.with_equal_pairs, title), None)


def _refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    if plan.order and not abilities.own_order:
        rule = _("must be a family's order for {title}, which runs no other", title=title)
        yield InputError(value=plan.schedule, rule=rule, place="order")
    if not plan.order:
        yield from abilities.refusals(plan.sizes, plan.schedule, title=title)
        if plan.num_chunks > 1 and not group_allowed(abilities.groups, plan.group_size, plan.sizes):
            usual = usual_group_size(plan.sizes)
            one = _("must be {usual} for {title}, which has no key for another", usual=usual, title=title)
            of_several = _(
                "must be a size that {title} runs for {count} microbatches", title=title, count=plan.num_microbatches
            )
            yield InputError(
                value=plan.group_size or usual,
                rule=one if abilities.groups is Groups.USUAL else of_several,
                place=_("group size"),
                remedy=_("plan for it with --target, or with another number of microbatches"),
            )
    if plan.delays_weights and plan.schedule in abilities.schedules and not abilities.delays_weights:
        yield InputError(
            value=True,
            rule=_("must be false for {title}, which does not delay weight gradients", title=title),
            place="delays_weights",
            remedy=_("plan for it with --target"),
        )
    if plan.releases_attention and not abilities.releases_attention:
        yield InputError(
            value=True,
            rule=_("must be false for {title}, whose pairs have no such order", title=title),
            place="releases_attention",
            remedy=_("plan for it with --target"),
        )
    if plan.continuing_layers and not abilities.parts_blocks:
        yield InputError(
            value=plan.continuing_layers,
            rule=_("must be 0 for {title}, which has no cut inside a block", title=title),
            place="continuing_layers",
            remedy=_("plan for it with --target, whose layers are whole blocks"),
        )
    if plan.schedule == abilities.equal_pairs and not plan.order:
        yield from _unequal_chunks(plan, title)
    yield from _cut_refusals(plan, abilities, title)
    yield from abilities.layer_refusals(
        plan.encoder_layers, plan.mtp_layers, title=title, encodes_apart=plan.encodes_apart
    )
    yield from _mtp_refusals(plan, abilities, title)
    yield from _recompute_refusals(plan, abilities, title)


def _unequal_chunks(plan: Plan, title: str) -> Iterator[InputError]:
    """Yield why chunks do not fit each other; layers without experts, in the first one, are not told from others."""
    for rank, of_rank in enumerate(zip(*plan.layers, strict=True)):
        first, *others = of_rank
        if len(set(others)) > 1 or first < others[0] or (rank and first > others[0]):
            yield InputError(
                value=list(of_rank),
                rule=_(
                    "must be equally many in all chunks of a rank for {title}, whose forwards wait for backwards layer "
                    "by layer; the first stage may have layers without experts beside",
                    title=title,
                ),
                place=_("layers, rank {rank}", rank=rank),
                remedy=_("plan for it with --target"),
            )
            return


def _cut_refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    counts = [count for row in plan.layers for count in row]
    decides = abilities.decides_cut(plan.num_chunks)
    if abilities.own_cut is not None and decides and plan.layers != abilities.own_cut(plan.num_layers, plan.sizes):
        rule = _("must be as {title} deals them out", title=title)
        yield InputError(value=[list(row) for row in plan.layers], rule=rule, place="layers")
    if abilities.empty is Empty.ANY or 0 not in counts:
        return
    stages = stages_of(plan, schedule_of(plan).stage_ranks)
    checked = stages if abilities.empty is Empty.NONE else stages[1:-1]
    empty = next((stage for stage in checked if not stage.kinds), None)
    if empty is not None:
        ends = _("must be above zero for {title}, where only the first and the last stage may be empty", title=title)
        none = _("must be above zero in every cell for {title}", title=title)
        yield InputError(
            value=0,
            rule=none if abilities.empty is Empty.NONE else ends,
            place=_("layers, chunk {chunk}, rank {rank}", chunk=empty.chunk, rank=empty.rank),
        )


def _mtp_refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    if not plan.mtp_layers or abilities.mtp is Mtp.NONE:
        return
    stages = stages_of(plan, schedule_of(plan).stage_ranks)
    held = [stage for stage in stages if stage.layers.stop > max(stage.layers.start, plan.num_layers - plan.mtp_layers)]
    is_last = abilities.mtp is Mtp.LAST_CHUNK and held[0].chunk == plan.num_chunks - 1
    if len(held) > 1 or not (is_last or held[0] is stages[-1]):
        last = _("must have those of multi-token prediction in the last stage for {title}", title=title)
        one = _(
            "must have those of multi-token prediction in one stage, the last of its rank, for {title}", title=title
        )
        yield InputError(
            value=[list(row) for row in plan.layers],
            rule=last if abilities.mtp is Mtp.LAST_STAGE else one,
            place="layers",
            remedy=_("plan for it with --target"),
        )


def _recompute_refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    """Yield why no way of the framework has the plan's recomputation: a kind, two that share a cell, the rest.

    Full recomputation would drop keys and values of a split sequence (see `Network.split_sequence`), and no framework
    moves layers to the host beside one.
    """
    used = plan.used_kinds
    ways = abilities.recomputation
    if plan.sequence_splits > 1:
        ways = tuple(
            replace(way, kinds=tuple(kind for kind in way.kinds if kind != FULL and not moves(kind))) for way in ways
        )
    if not used or any(_is_expressible(plan, way) for way in ways):
        return
    remedy = _("plan for it with --target, or write the plan for another framework")
    kinds = list(dict.fromkeys(kind for way in ways for kind in way.kinds))
    single = [kind for kind in kinds if "+" not in kind and (kind == OFFLOAD or not moves(kind))]
    shown = [kind for kind in single if segment_length(kind) is None]
    shown += [_("segments of one length")] if len(shown) < len(single) else []
    names = ", ".join(shown)  # of sets of modules, the modules
    always = _("must be of the kinds {names} for {title}", names=names, title=title)
    split = _("must be of the kinds {names} for {title} where sequences are split", names=names, title=title)
    if kinds:
        rule = always if plan.sequence_splits == 1 else split
        for kind in used:
            if kind not in kinds:
                yield InputError(value=kind, rule=rule, place="recompute", remedy=remedy)
    for length in filter(None, map(segment_length, used)):
        for chunk, row in enumerate(plan.layers):
            for rank, count in enumerate(row):
                if count % length:
                    yield InputError(
                        value=count,
                        rule=_(
                            "must be a multiple of {length} for {title}, which has no shorter segments",
                            length=length,
                            title=title,
                        ),
                        place=_("layers, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
                        remedy=_("decide such layers, or segments of another length"),
                    )
    by_layer = [way for way in ways if way.scope is Scope.LAYERS]
    for pair in dict.fromkeys(pair for way in by_layer for pair in way.apart):
        if any(set(pair) <= set(way.kinds) and pair not in way.apart for way in by_layer):
            continue  # another way has both in one cell
        for chunk in range(plan.num_chunks):
            for rank in range(plan.num_ranks):
                counts = {kind: plan.count(kind, chunk, rank) for kind in pair}
                if all(counts.values()):
                    yield InputError(
                        value=counts,
                        rule=_(
                            "must not mix {first}-only and {second}-only layers in one cell for {title}",
                            first=pair[0],
                            second=pair[1],
                            title=title,
                        ),
                        place=_("recompute, chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
                        remedy=remedy,
                    )
    rule = _("must be recomputation that {title} has a way for", title=title)
    yield InputError(value=", ".join(used), rule=rule, place="recompute", remedy=remedy)


def _is_expressible(plan: Plan, way: Recomputation) -> bool:
    """Return whether the recomputation of `plan` is one that this way has."""
    moved = plan.moved_share
    chain = way.chain(moved.kind) if moved is not None and moved.kind in way.kinds else ()
    if not set(plan.used_kinds) <= {*way.kinds, *chain}:
        return False
    cells = [
        {kind: plan.count(kind, chunk, rank) for kind in (*plan.used_kinds, FULL, NONE)}
        for chunk in range(plan.num_chunks)
        for rank in range(plan.num_ranks)
    ]
    under = [{kind for kind, count in cell.items() if count} for cell in cells]
    if way.scope is Scope.LAYERS:
        return not any(set(pair) <= each for pair in way.apart for each in under)
    if way.scope is Scope.CELL:
        return all(len(each) <= 1 for each in under)
    if way.scope is Scope.FIRST_CHUNK:
        first, others = cells[: plan.num_ranks], cells[plan.num_ranks :]
        only = set(plan.used_kinds) - {FULL}
        return not any(cell[NONE] for cell in first) and not any(cell[kind] for cell in others for kind in only)
    if chain:
        return set().union(*under) <= set(chain)
    if way.scope is Scope.MODEL:
        lengths = [segment_length(kind) or 1 for kind in plan.used_kinds]
        return len(set().union(*under)) <= 1 and has_whole_segments(plan.layers, lengths)
    most = max(cell[FULL] for cell in cells)
    return all(cell[FULL] == min(most, cell[FULL] + cell[NONE]) for cell in cells)
