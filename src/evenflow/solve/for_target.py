"""Planning among the plans that a framework can run, with the proof for these plans.

Its schedules, numbers of chunks, group sizes and ways of recomputing are the candidates of a contest. One number of
recomputed layers for all cells is a candidate for each number; what no framework can run only bounds the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evenflow.errors import InputError
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.model import (
    FULL,
    NONE,
    Abilities,
    CellRule,
    Cells,
    Empty,
    Groups,
    HostLink,
    Plan,
    Request,
    Sizes,
    check_no_keepers,
    even_cut,
)
from evenflow.schedule import (
    FAMILIES,
    different_group_sizes,
    family_name,
    first_group_size,
    group_allowed,
    usual_group_size,
)
from evenflow.simulate import Integers, compared_families, release_saves
from evenflow.solve.best import counts_to_try, floors_of, in_all_variants, run_contest, schedule_pairs
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.clock import now_s
from evenflow.solve.contest.entry import Entry
from evenflow.solve.equal_pairs import paired_requests, with_equal_pairs
from evenflow.solve.group_choice import GroupSizes, known_group_sizes, tried_group_sizes
from evenflow.solve.moved_shares import improved_by_share
from evenflow.solve.order.alternate import preference, solve_any_order
from evenflow.solve.outcome import BindingLimit, Outcome, ProgressCallback, Status
from evenflow.solve.problem import Problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.recompute_ways import RecomputeWay, recompute_ways
from evenflow.solve.requests import ContestSearch
from evenflow.solve.restrictions import only_group_sizes
from evenflow.solve.time_left import TimeLeft

_SHARES_PART = 0.15
"""Part of the time for plans with a share of what moves to the host."""
_PAIRS_PART = 0.4
"""Part of the time for plans with pairs whose chunks must be equal."""
_FEWEST_GROUP_SIZES = 2
"""Group sizes to try where the usual one cannot be run."""


def solve_for_target(
    request: Request,
    abilities: Abilities,
    search: ContestSearch,
    *,
    title: str,
    schedules: Sequence[str] = (),
) -> BestOutcome:
    """Return the shortest plan of `request` that a framework with these abilities, named `title`, can run.

    Tried are its schedules, or those of `schedules` that it has, with each number of chunks that `search`
    names. Cells are empty where that is allowed and the framework runs them. The request's own chunks, group size,
    layers and rule of cells do not count; the rest is as for `plan_best`. Bound and status of the answer are those of
    all candidates together.

    Raises InputError where the framework can run nothing of the kind, and Interrupted when Ctrl-C comes before any
    plan.
    """
    for link in search.host_links:
        check_no_keepers(replace(request.network, host_link=link), title=title)
    request = _with_runnable_cells(request, abilities, title=title)
    if abilities.equal_pairs is not None:
        return _beside_equal_pairs(request, abilities, search, abilities.equal_pairs, title=title, schedules=schedules)
    return _in_contest(request, abilities, search, title=title, schedules=schedules)


def _beside_equal_pairs(
    request: Request, abilities: Abilities, search: ContestSearch, paired: str, *, title: str, schedules: Sequence[str]
) -> BestOutcome:
    """Return the answer where one more schedule needs equal chunks, which is tried after the contest of the others."""
    began = now_s()
    named = [family_name(name) for name in schedules]
    others = [name for name in named if name != paired]
    requests = paired_requests(request, abilities, search, title=title) if not named or paired in named else []
    if named and not others and not requests:
        raise InputError(
            value=paired,
            rule=_(
                "must have cuts of which all chunks of a rank hold equally many layers with experts, as {title} needs",
                title=title,
            ),
            place="schedule",
            remedy=_("take another number of chunks, or another schedule"),
        )
    without = None
    if not named or others:
        part = 1 - _PAIRS_PART if requests else 1.0
        limited = replace(search, time_limit_s=part * search.time_limit_s)
        without = _in_contest(request, abilities, limited, title=title, schedules=others)
    left = TimeLeft(ends_s=began + search.time_limit_s)
    best = with_equal_pairs(without, requests, left=left) if requests else without
    assert best is not None
    return replace(best, outcome=_named(best.outcome, abilities, title=title))


def _in_contest(
    request: Request, abilities: Abilities, search: ContestSearch, *, title: str, schedules: Sequence[str]
) -> BestOutcome:
    """Return the answer of the contest of all schedules with any cut."""
    began = now_s()
    pairs = _pairs(request, abilities, schedules, counts_to_try(request, search), title=title)

    def request_of(count: int) -> Request:
        sizes = replace(request.sizes, num_chunks=count)
        if search.layers is None:
            place = _("body layers of {name}", name=request.network.name)
            kept = decided_layers(abilities, request.network.num_layers, sizes, place=place)
        else:
            kept = search.layers.get(count)
        return replace(request, sizes=sizes, layers=kept, group_size=None)

    tried: dict[int, Request] = {}
    refusals: list[InputError] = []
    for count in dict.fromkeys(count for _name, count in pairs):
        try:
            tried[count] = request_of(count)
        except InputError as error:  # the framework's own cut does not go into so many chunks
            refusals.append(error)
    if not tried:
        raise refusals[0]
    pairs = [(name, count) for name, count in pairs if count in tried]
    floors = floors_of(tried, [name for name, _count in pairs])
    entries: list[Entry] = []
    ways: dict[CellRule, RecomputeWay] = {}
    for name, count in pairs:
        ways_of_sizes = recompute_ways(tried[count], abilities.under(name), known=search.known)
        ways |= {way.rule: way for way in ways_of_sizes}
        known_sizes = known_group_sizes(search.known, name, tried[count].sizes, which=search.group_sizes)
        runnable = [size for size in known_sizes if group_allowed(abilities.groups, size, tried[count].sizes)]
        sizes = group_sizes_for(tried[count], name, abilities, which=search.group_sizes)
        for size in dict.fromkeys((*sizes, *runnable)):
            entries += entries_of_ways(
                ways_of_sizes,
                schedule=name,
                num_chunks=count,
                group_size=size,
                floor_ns=floors[count, FAMILIES[name].has_pairs],
            )
    if not entries:
        raise InputError(
            value=request.sizes.num_microbatches,
            rule=_("must be a number of microbatches for which {title} has a group size", title=title),
            place="microbatches",
            remedy=_("the next one is {count}", count=_next_microbatches(request.sizes, abilities.groups)),
        )

    if abilities.releases_attention and request.memory_limit_bytes is not None:
        entries += _releasing(entries, request)
    entries = in_all_variants(entries, tried, search)
    filled = [name for name in dict(pairs) if abilities.under(name).empty is Empty.NONE]
    chains = {rule: way.chain for rule, way in ways.items() if way.chain}
    contest_s = search.time_limit_s * (1 - (_SHARES_PART if chains else 0))
    limited = replace(search, time_limit_s=contest_s, fetches_by_cell=False)  # no framework has numbers by cell
    contest_outcome = run_contest(entries, tried, limited, began=began, filled=filled)
    best = min(entries, key=lambda entry: entry.preference)
    problem = None if best.race is None else best.race.problem
    less = ways[best.rule].less if best.rule else None
    outcome = _for_all(contest_outcome, abilities, title=title, problem=problem, less=less)
    outcome = _with_restrictions_of_all(outcome, entries, abilities)
    if not chains:
        return outcome
    left = TimeLeft(ends_s=began + search.time_limit_s)
    return improved_by_share(outcome, [entry for entry in entries if entry.rule in chains], chains, left=left)


def _with_runnable_cells(request: Request, abilities: Abilities, *, title: str) -> Request:
    """Return the request with empty cells only where the framework runs them."""
    return replace(
        request,
        network=abilities.as_run(request.network, title=title),
        allow_empty=request.allow_empty and abilities.empty is not Empty.NONE,
        only_ends_empty=request.only_ends_empty or abilities.empty is Empty.ENDS,
    )


def _releasing(entries: Sequence[Entry], request: Request) -> list[Entry]:
    """Return the entries with pairs that may hold less where attention goes backward as early as it can."""
    copies: dict[int, Entry] = {}
    kinds = request.network.kinds
    for entry in entries:  # those that bound others, and those that recompute less, come first
        allowed = {kinds[index] for own in (entry.rule or request.cell_rule).families(kinds) for index in own}
        if FAMILIES[entry.schedule].has_pairs and release_saves(request.network, allowed):
            early = _("attention released early")
            copies[id(entry)] = replace(
                entry,
                releases_attention=True,
                recomputation=f"{entry.recomputation}, {early}" if entry.recomputation else early,
                less=None if entry.less is None else copies[id(entry.less)],
                covered_by=tuple(copies[id(cover)] for cover in entry.covered_by),
            )
    return list(copies.values())


def entries_of_ways(
    ways: Sequence[RecomputeWay], *, schedule: str, num_chunks: int, group_size: int | None, floor_ns: int
) -> list[Entry]:
    """Return an entry for each way of recomputing, with the bounding ones that cover it."""
    entries: list[Entry] = []
    covers: list[tuple[int, Entry]] = []
    last: Entry | None = None
    for way in ways:  # those that bound others come before them
        entry = Entry(
            schedule=schedule,
            num_chunks=num_chunks,
            group_size=group_size,
            floor_ns=floor_ns,
            rule=way.rule,
            recomputation=way.name,
            bounds=way.bounds,
            shares_of=way.chain if way.bounds is not None else (),
            less=last if way.bounds is None and way.count is not None else None,
            covered_by=tuple(cover for least, cover in covers if way.count is not None and least <= way.count),
        )
        entries.append(entry)
        if way.bounds is not None and way.count is not None:
            covers.append((way.count, entry))
        elif way.count is not None:
            last = entry
    return entries


def search_for_target(
    request: Request,
    abilities: Abilities,
    *,
    title: str,
    split_backward: bool = False,
    host_links: Sequence[HostLink] = (),
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Outcome:
    """Return the shortest step found over any order, of a framework with these abilities that runs orders of our own.

    The time is shared equally by its ways of recomputing. The rest is as for `plan_any_order`.

    Raises InputError where the framework runs only the orders it knows, and Interrupted.
    """
    if not abilities.own_order:
        raise InputError(
            value="search",
            rule=_("must be one of {names} for {title}", names=", ".join(abilities.schedules), title=title),
            place="schedule",
            remedy=_("plan for one of these, or write the plan for another framework"),
        )
    request = _with_runnable_cells(request, abilities, title=title)
    ways = [way for way in recompute_ways(request, abilities) if way.bounds is None]
    outcomes: list[Outcome] = []
    for way in ways:
        if outcomes and was_interrupted():
            break
        outcomes.append(
            solve_any_order(
                replace(request, cell_rule=way.rule),
                split_backward=split_backward,
                in_pairs=any(FAMILIES[name].has_pairs for name in abilities.schedules),
                host_links=host_links,
                time_limit_s=time_limit_s / len(ways),
                progress=progress,
                known=known,
            )
        )
    best = replace(min(outcomes, key=preference), solve_seconds=sum(outcome.solve_seconds for outcome in outcomes))
    return _named(best, abilities, title=title)


def _pairs(
    request: Request, abilities: Abilities, schedules: Sequence[str], counts: Sequence[int], *, title: str
) -> list[tuple[str, int]]:
    """Return the schedules and numbers of chunks that can be run; raises InputError, with the reason, without any."""
    network = request.network
    compared = compared_families(network, request.communication)
    names = [family_name(name) for name in schedules] or [name for name in abilities.schedules if name in compared]
    pairs = schedule_pairs(names, counts, sequence_splits=request.sizes.sequence_splits)
    if not pairs:
        rule = _("must be one that a schedule of {title} has: {names}", title=title, names=", ".join(names))
        raise InputError(value=list(counts), rule=rule, place=_("the number of chunks"))

    def refusals_of(name: str, count: int) -> Iterator[InputError]:
        yield from abilities.refusals(replace(request.sizes, num_chunks=count), name, title=title)
        yield from abilities.under(name).layer_refusals(
            network.encoder_layers, network.mtp_layers, title=title, encodes_apart=network.encodes_apart
        )

    refusals = {pair: next(refusals_of(*pair), None) for pair in pairs}
    kept = [pair for pair, refusal in refusals.items() if refusal is None]
    if not kept:
        raise next(refusal for refusal in refusals.values() if refusal is not None)
    return kept


def group_sizes_for(request: Request, schedule: str, abilities: Abilities, *, which: GroupSizes) -> list[int | None]:
    """Return the group sizes to try of those that can be run, the usual one first where it is among them."""
    if not FAMILIES[schedule].has_groups or request.sizes.num_chunks == 1:
        return [None]
    sizes = request.sizes
    tried = [
        size
        for size in tried_group_sizes(request, schedule, which=which)
        if group_allowed(abilities.groups, size, sizes)
    ]
    if tried:
        return tried
    fill = usual_group_size(sizes)
    count = sizes.num_microbatches
    all_in_one = count  # the same order as the usual size where that leaves one group
    different = dict.fromkeys((*different_group_sizes(schedule, sizes), all_in_one))
    others = [size for size in different if group_allowed(abilities.groups, size, sizes)]
    others.sort(key=lambda size: first_group_size(num_microbatches=count, group=size or fill, fill=fill))
    return others[:_FEWEST_GROUP_SIZES]


def _next_microbatches(sizes: Sizes, groups: Groups) -> int:
    """Return the next number of microbatches that can go through several chunks in groups of some size."""
    more = sizes.num_microbatches + 1
    return next(
        count
        for count in range(more, more + sizes.num_ranks)
        if any(group_allowed(groups, size, replace(sizes, num_microbatches=count)) for size in (None, count))
    )


def decided_layers(abilities: Abilities, num_layers: int, sizes: Sizes, *, place: str) -> Cells | None:
    """Return the layers of every cell where the framework decides them; None where it does not.

    Raises InputError, with `place` for the layers, where it has no cut for them.
    """
    if abilities.own_cut is None or not abilities.decides_cut(sizes.num_chunks):
        return None
    layers = abilities.own_cut(num_layers, sizes)
    if layers is None:
        equal = _("must be a multiple of the {count} cells, which all have as many", count=sizes.num_cells)
        other = _("must be enough for the {count} cells that the framework deals them out to", count=sizes.num_cells)
        rule = equal if abilities.own_cut is even_cut else other
        raise InputError(value=num_layers, rule=rule, place=place)
    return layers


def _named(outcome: Outcome, abilities: Abilities, *, title: str) -> Outcome:
    """Return the outcome for a framework: what it cannot run is nothing that is left out."""
    own = outcome.restrictions
    full_cells = own.full_cells and abilities.empty is not Empty.NONE
    return replace(outcome, title=title, restrictions=replace(own, full_cells=full_cells, kept_apart=None))


def _for_all(
    best_outcome: BestOutcome, abilities: Abilities, *, title: str, problem: Problem | None, less: CellRule | None
) -> BestOutcome:
    """Return the outcome with bound and status of all candidates together, not of the best one's rule alone."""
    outcome = _named(best_outcome.outcome, abilities, title=title)
    if outcome.makespan_ns is not None and problem is not None and outcome.plan is not None:
        is_optimal = best_outcome.lower_bound_ns >= outcome.makespan_ns * (1 - 2 * TOLERANCE)
        outcome = replace(
            outcome,
            lower_bound_ns=best_outcome.lower_bound_ns,
            status=Status.OPTIMAL if is_optimal else Status.FEASIBLE,
            binding=_binding(outcome, outcome.plan, problem, less),
        )
    return replace(best_outcome, outcome=outcome)


def _with_restrictions_of_all(best: BestOutcome, entries: Sequence[Entry], abilities: Abilities) -> BestOutcome:
    """Return the outcome with those restrictions that all `entries` share: its bound is one on all of them."""
    outcome, plan = best.outcome, best.outcome.plan
    if plan is None:
        return best
    own = outcome.restrictions
    if own.group_sizes:
        same = [entry for entry in entries if (entry.schedule, entry.num_chunks) == (plan.schedule, plan.num_chunks)]
        different = different_group_sizes(plan.schedule, plan.sizes)
        allowed = [size for size in different if group_allowed(abilities.groups, size, plan.sizes)]
        own = replace(own, group_sizes=only_group_sizes((entry.group_size for entry in same), allowed, plan.sizes))
    links = {entry.host_link for entry in entries}
    own = replace(own, copies_timed=own.copies_timed and len(links) == 1)
    return replace(best, outcome=replace(outcome, restrictions=own))


def _binding(outcome: Outcome, plan: Plan, problem: Problem, less: CellRule | None) -> tuple[BindingLimit, ...] | None:
    """Return the limits that bind, also those that forbid the cells to recompute as `less` says."""
    if outcome.binding is None or less is None:
        return outcome.binding
    counts = _under(less, problem, problem.counts(plan))
    costs = problem.costs(counts)
    peaks = {rank: problem.rank_peak(costs, rank) for rank in range(problem.num_ranks)}
    limits = {limit.rank: limit for limit in outcome.binding} | {
        rank: BindingLimit(rank=rank, more_bytes=peak - problem.limit, takes_layer=False)
        for rank, peak in peaks.items()
        if peak > problem.limit
    }
    return tuple(limits[rank] for rank in sorted(limits))


def _under(rule: CellRule, problem: Problem, counts: Integers) -> Integers:
    """Return counts of the same layers in every cell, as many under `full` as the rule demands, the others plain."""
    changed = np.zeros_like(counts)
    for cell, total in enumerate(counts.sum(axis=1).tolist()):
        full = rule.full_range(total)[0] if rule.full is not None else 0
        if full:
            changed[cell, problem.kinds.index(FULL)] = full
        changed[cell, problem.kinds.index(NONE)] = total - full
    return changed
