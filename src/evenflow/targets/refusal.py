"""Why a framework cannot run a plan, by its abilities alone."""

from collections.abc import Iterator

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, Abilities, Empty, Groups, Plan, Recomputation, Scope, Sizes
from evenflow.schedule import usual_group_size


def refusal(plan: Plan, abilities: Abilities, *, title: str) -> InputError | None:
    """Return the first reason why a framework with these abilities cannot run `plan`; None where it can.

    `title` is the framework's name for people.
    """
    return next(_refusals(plan, abilities, title), None)


def size_refusals(sizes: Sizes, schedule: str, abilities: Abilities, *, title: str) -> Iterator[InputError]:
    """Yield the reasons why sizes and schedule alone cannot be run."""
    if schedule not in abilities.schedules and not abilities.own_order:
        names = ", ".join(abilities.schedules)
        yield InputError(
            value=schedule,
            rule=_("must be one of {names} for {title}", names=names, title=title),
            place="schedule",
            remedy=_("plan for it with --target, or write the plan for another framework"),
        )
    if abilities.most_chunks is not None and sizes.num_chunks > abilities.most_chunks:
        yield InputError(
            value=sizes.num_chunks,
            rule=_("must be at most {most} for {title}", most=abilities.most_chunks, title=title),
            place="chunks",
        )
    if sizes.sequence_splits > 1 and not abilities.splits_sequences:
        rule = _("must be 1 for {title}, which does not split sequences", title=title)
        yield InputError(value=sizes.sequence_splits, rule=rule, place="sequence_splits")
    for each in abilities.sizes:
        if not each.holds(sizes, schedule):
            with_title = _("{rule} for {title}", rule=each.rule(sizes), title=title)
            yield InputError(value=_given(sizes, schedule, each.place), rule=with_title, place=each.place)


def group_allowed(size: int | None, sizes: Sizes, groups: Groups) -> bool:
    """Return whether an interleaved schedule may have groups of `size` (None: the usual one)."""
    ranks, count = sizes.num_ranks, sizes.num_microbatches
    group = size or usual_group_size(sizes)
    if groups is Groups.ANY:
        return True
    if groups is Groups.MEGATRON:
        return ranks <= group <= count and (count % group == 0 or count % group >= ranks)
    if groups is Groups.MULTIPLE:
        return group == usual_group_size(sizes) and count % group == 0
    return group == usual_group_size(sizes)


def _refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    if plan.order and not abilities.own_order:
        rule = _("must be a family's order for {title}, which runs no other", title=title)
        yield InputError(value=plan.schedule, rule=rule, place="order")
    if not plan.order:
        yield from size_refusals(plan.sizes, plan.schedule, abilities, title=title)
        if plan.num_chunks > 1 and not group_allowed(plan.group_size, plan.sizes, abilities.groups):
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
    yield from _cut_refusals(plan, abilities, title)
    yield from _recompute_refusals(plan, abilities, title)


def _cut_refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    counts = [count for row in plan.layers for count in row]
    if abilities.even_cut and len(set(counts)) > 1:
        rule = _("must be equal in all cells for {title}", title=title)
        yield InputError(value=[list(row) for row in plan.layers], rule=rule, place="layers")
    inner = counts if abilities.empty is Empty.NONE else counts[1:-1] if abilities.empty is Empty.ENDS else []
    if 0 in inner:
        ends = _("must be above zero for {title}, where only the first and the last stage may be empty", title=title)
        none = _("must be above zero in every cell for {title}", title=title)
        yield InputError(
            value=0,
            rule=none if abilities.empty is Empty.NONE else ends,
            place=_("layers, chunk {chunk}, rank {rank}", **_first_empty(plan, ends=abilities.empty is Empty.NONE)),
        )


def _first_empty(plan: Plan, *, ends: bool) -> dict[str, int]:
    counts = [count for row in plan.layers for count in row]
    chunk, rank = divmod(counts.index(0, 0 if ends else 1), plan.num_ranks)
    return {"chunk": chunk, "rank": rank}


def _recompute_refusals(plan: Plan, abilities: Abilities, title: str) -> Iterator[InputError]:
    """Yield why no way of the framework has the plan's recomputation: a kind, two that share a cell, the rest."""
    used = [kind for kind, table in plan.recompute.items() if any(map(any, table))]
    ways = [way for way in abilities.recomputation if plan.sequence_splits == 1 or way.splits_sequences]
    if not used or any(_is_expressible(plan, way) for way in ways):
        return
    remedy = _("plan for it with --target, or write the plan for another framework")
    kinds = list(dict.fromkeys(kind for way in ways for kind in way.kinds))
    names = ", ".join(kinds)
    always = _("must be of the kinds {names} for {title}", names=names, title=title)
    split = _("must be of the kinds {names} for {title} where sequences are split", names=names, title=title)
    if kinds:
        rule = always if plan.sequence_splits == 1 else split
        for kind in used:
            if kind not in kinds:
                yield InputError(value=kind, rule=rule, place="recompute", remedy=remedy)
    apart = {way.apart for way in ways if way.scope is Scope.LAYERS}
    if len(apart) == 1 and (pair := apart.pop()) is not None:
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
    kinds = {kind for kind, table in plan.recompute.items() if any(map(any, table))}
    if not kinds <= set(way.kinds):
        return False
    cells = [
        {kind: plan.count(kind, chunk, rank) for kind in (*way.kinds, NONE)}
        for chunk in range(plan.num_chunks)
        for rank in range(plan.num_ranks)
    ]
    under = [{kind for kind, count in cell.items() if count} for cell in cells]
    if way.scope is Scope.LAYERS:
        return way.apart is None or not any(set(way.apart) <= each for each in under)
    if way.scope is Scope.CELL:
        return all(len(each) <= 1 for each in under)
    if way.scope is Scope.MODEL:
        return len(set().union(*under)) <= 1
    most = max(cell[FULL] for cell in cells)
    return all(cell[FULL] == min(most, cell[FULL] + cell[NONE]) for cell in cells)


def _given(sizes: Sizes, schedule: str, place: str) -> int | str:
    values: dict[str, int | str] = {
        "ranks": sizes.num_ranks,
        "chunks": sizes.num_chunks,
        "microbatches": sizes.num_microbatches,
        "sequence_splits": sizes.sequence_splits,
        "schedule": schedule,
    }
    return values[place]
