"""Planning over schedule families, chunk counts and group sizes within one time limit, in a contest of all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

from evenflow.asking import takes
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import HostLink, Network, Request
from evenflow.schedule import FAMILIES, default_family, family_name
from evenflow.simulate import compared_families
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.bounds import AnyPlan, any_order_bound_ns
from evenflow.solve.clock import now_s
from evenflow.solve.contest.contest import Contest
from evenflow.solve.contest.entry import Entry
from evenflow.solve.group_choice import known_group_sizes, tried_group_sizes
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.rank_orders import rank_orders, reordered
from evenflow.solve.requests import BestRequest, ContestSearch
from evenflow.solve.share_bound import bounding_shares

MOST_CHUNKS = 4
"""Largest number of chunks that is tried where none is asked for."""


def chunk_counts(network: Network, *, num_ranks: int) -> tuple[int, ...]:
    """Return 1 to 4 chunks per rank, as far as every cell has a layer."""
    return tuple(count for count in range(1, MOST_CHUNKS + 1) if count == 1 or count * num_ranks <= network.num_layers)


@takes(BestRequest)
def plan_best(request: BestRequest) -> BestOutcome:
    """Return the plan with the shortest makespan over schedule families, numbers of chunks and group sizes.

    Tried are the `families` (default: all but those that only serve comparison) with each of `num_chunks` (default:
    1 to 4 while the layers suffice) that they have. Interleaved families are tried with the usual group size and up to
    two promising ones; with `group_sizes` ``usual`` with that one alone, with ``every`` with all that make different
    orders. With `place_ranks`, ranks that differ are placed as well, groups of so many of them in every order. `layers`
    gives the layers of every cell ``[chunk][rank]`` by number of chunks, and no others are tried then. The rest is as
    for `plan`; `time_limit_s` is for all together.

    Raises InputError where no candidate can be tried, and Interrupted when Ctrl-C comes before any plan.
    """
    return solve_best(request.problem(mix_any=request.mix_any), request, families=request.families)


def solve_best(request: Request, search: ContestSearch, *, families: Sequence[str] = ()) -> BestOutcome:
    """Return the best plan of `request`, whose own number of chunks, group size and layers do not count.

    `plan_best` says the rest.
    """
    began = now_s()
    counts = counts_to_try(request, search)
    names = [family_name(name) for name in families] or compared_families(request.network, request.communication)
    pairs = schedule_pairs(names, counts, sequence_splits=request.sizes.sequence_splits)
    if not pairs:
        raise InputError(
            value=list(counts),
            rule=_("must be one that a schedule has of {names}", names=", ".join(names)),
            place=_("the number of chunks"),
        )
    tried = {
        count: replace(
            request,
            sizes=replace(request.sizes, num_chunks=count),
            layers=None if search.layers is None else search.layers[count],
            group_size=None,
        )
        for _name, count in pairs
    }
    floors = floors_of(tried, names)
    entries = [
        Entry(schedule=name, num_chunks=count, group_size=size, floor_ns=floors[count, FAMILIES[name].has_pairs])
        for name, count in pairs
        for size in dict.fromkeys(
            (
                *tried_group_sizes(tried[count], name, which=search.group_sizes),
                *known_group_sizes(search.known, name, tried[count].sizes, which=search.group_sizes),
            )
        )
    ]
    return run_contest(in_all_variants(entries, tried, search), tried, search, began=began)


def solve_variants(request: Request, search: ContestSearch, *, schedule: str) -> BestOutcome:
    """Return the best plan of `request` under the order of the family `schedule`, over orders of ranks and fetches.

    `plan_best` says the rest.
    """
    began, tried = now_s(), {request.sizes.num_chunks: request}
    entry = Entry(schedule=schedule, num_chunks=request.sizes.num_chunks, group_size=request.group_size, floor_ns=0)
    return run_contest(in_all_variants([entry], tried, search), tried, search, began=began)


def counts_to_try(request: Request, search: ContestSearch) -> tuple[int, ...]:
    """Return the numbers of chunks that a search tries: those it names, as far as it has layers for them."""
    layers = search.layers
    counts = tuple(search.num_chunks) or tuple(
        layers or chunk_counts(request.network, num_ranks=request.sizes.num_ranks)
    )
    return counts if layers is None else tuple(count for count in counts if count in layers)


def floors_of(tried: Mapping[int, Request], names: Iterable[str]) -> dict[tuple[int, bool], int]:
    """Return the makespan below which no plan can be, whatever its order.

    It stands by number of chunks and by whether forwards run beside backwards, as far as any of the families do.
    """
    return {
        (count, in_pairs): any_order_bound_ns(AnyPlan.of(request, may_split=True, in_pairs=in_pairs))
        for in_pairs in dict.fromkeys(FAMILIES[name].has_pairs for name in names)
        for count, request in tried.items()
    }


def in_all_variants(entries: Sequence[Entry], tried: Mapping[int, Request], search: ContestSearch) -> list[Entry]:
    """Return the entries, each for the request with its number of chunks, in every order of ranks and with all fetches.

    The order in which the ranks are comes first; without anything to place it is the only one.
    """
    network = next(iter(tried.values())).network
    orders: list[tuple[int, ...]] = [()]
    if search.place_ranks is not None and network.ranks:
        orders = rank_orders(network.ranks, search.place_ranks)
    links = tuple(search.host_links) if network.offloads else ()
    if orders == [()] and not links:
        return list(entries)
    placed: list[Entry] = []
    for order, link in product(orders, links or (None,)):
        floors = floors_of(
            {
                chunks: replace(request, network=reordered(request.network, order)) if order else request
                for chunks, request in tried.items()
            },
            [entry.schedule for entry in entries],
        )
        copies: dict[int, Entry] = {}
        for entry in entries:  # those that bound others, and those that recompute less, come first
            copies[id(entry)] = replace(
                entry,
                rank_order=order,
                host_link=link,
                floor_ns=floors[entry.num_chunks, FAMILIES[entry.schedule].has_pairs],
                less=None if entry.less is None else copies[id(entry.less)],
                covered_by=tuple(copies[id(cover)] for cover in entry.covered_by),
            )
        placed += copies.values()
    return placed


def run_contest(
    entries: list[Entry],
    tried: Mapping[int, Request],
    search: ContestSearch,
    *,
    began: float,
    filled: Sequence[str] = (),
) -> BestOutcome:
    """Race the entries, each for the request with its number of chunks, and return the outcome of all.

    Under the families of `filled` every cell holds a layer, whatever the request allows. An entry with a rule of its
    own keeps to that rule; entries that differ in nothing else share what is made for them.
    """

    @cache
    def free_problem(
        schedule: str,
        count: int,
        group_size: int | None,
        rank_order: tuple[int, ...],
        releases_attention: bool,
        host_link: HostLink | None,
    ) -> Problem:
        request = replace(tried[count], group_size=group_size, releases_attention=releases_attention)
        request = replace(request, allow_empty=False) if schedule in filled else request
        network = reordered(request.network, rank_order) if rank_order else request.network
        if host_link is not None:
            network = replace(network, host_link=host_link)
        return make_problem(replace(request, network=network), schedule=schedule)

    def problem_of(entry: Entry) -> Problem:
        problem = free_problem(*entry.order, entry.host_link)
        if entry.shares_of:
            return bounding_shares(problem, entry.shares_of)
        return replace(problem, request=replace(problem.request, cell_rule=entry.rule or problem.request.cell_rule))

    request = next(iter(tried.values()))
    contest = Contest(
        entries,
        problem_of,
        began=began,
        memory_limit_bytes=request.memory_limit_bytes if request.network.has_memory else None,
        time_limit_s=search.time_limit_s,
        progress=search.progress,
        known=search.known,
        fetches_by_cell=search.fetches_by_cell,
    )
    contest.run()
    return contest.outcome()


def schedule_pairs(names: Sequence[str], counts: Sequence[int], *, sequence_splits: int) -> list[tuple[str, int]]:
    """Return families and chunk counts to try: few chunks first, for each the default family before other `names`."""
    return [
        (name, count)
        for count in counts
        for name in sorted(dict.fromkeys(names), key=lambda name: name != default_family(num_chunks=count))
        if FAMILIES[name].has_chunks(count) and (FAMILIES[name].can_split or sequence_splits == 1)
    ]
