"""A bound on all plans that move a share of what the modules of cells keep, whatever their further ranks keep first.

Cells that hold the kinds of a chain in any numbers have all shares among them. What further ranks keep of their first
backwards saves copies; of the last of these backwards other modules may move than of later ones. So up to a number of
backwards their copies are left out, and the memory of their passes. Who keeps more backwards than that holds as much as
if nothing left (see `kept_as_if_none_left`), and would not be slower then: its cells are among those of the chain too.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import CellRule, Mode, Network, with_chain
from evenflow.schedule import Op
from evenflow.simulate import Integers, Simulation, kept_as_if_none_left, live_vectors, run, with_copies
from evenflow.solve.problem import Problem, problem_of_order

Chain = tuple[str, ...]


def with_kinds_of(problem: Problem, chain: Chain) -> Problem | None:
    """Return the problem of layers that may be under all kinds of `chain`; None where they are not known."""
    network = None if problem.blocks is not None else with_chain(problem.request.network, chain)
    if network is None:
        return None
    request = replace(problem.request, network=network, cell_rule=CellRule(kinds=chain))
    return problem_of_order(request, problem.schedule)


@dataclass(frozen=True, kw_only=True)
class _WithoutSome(Simulation):
    """A step without some copies, and without the memory of their passes."""

    left_bytes: tuple[int, ...]
    """Highest memory of every rank."""

    @cached_property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        return self.left_bytes


class SharesProblem(Problem):
    """A problem of cells of any kinds of a chain, in which some copies are left out, and the memory of their passes."""

    def simulate(self, counts: Integers) -> Simulation:
        """Return the simulation without both."""
        whole = super().simulate(counts)
        timeline = run(self.graph, whole.costs.durations, whole.costs.messages(self.request.communication))
        return _WithoutSome(
            network=whole.network,
            plan=whole.plan,
            communication=whole.communication,
            costs=whole.costs,
            timeline=timeline,
            left_bytes=tuple(self.rank_memory(whole.costs).tolist()),
        )


def bounding_shares(problem: Problem, chain: Chain) -> Problem:
    """Return a problem of which no plan with a share of `chain` takes less than the bound.

    Raises InputError where layers do not know their modules apart.
    """
    whole = with_kinds_of(problem, chain)
    if whole is None:
        raise InputError(value=chain[-1], rule=_("must be of layers that know its modules apart"), place="recompute")
    link, schedule = whole.host_link, whole.schedule
    if link is None:
        return whole
    if _stays_alike(whole.request.network, chain):
        counts = [kept_as_if_none_left(schedule, rank, link) for rank in range(1, schedule.num_ranks)]
    else:
        counts = [int((schedule.ops == Op.F).sum())] * (schedule.num_ranks - 1)
    without = ((), *((0,) * count for count in counts))
    graph = with_copies(whole.graph.of_actions, link, first_moved=without)
    live = tuple(
        live_vectors(schedule, rank, host_link=link, from_backward=len(own)) for rank, own in enumerate(without)
    )
    kept = {each.name: getattr(whole, each.name) for each in fields(whole)}
    return SharesProblem(**{**kept, "graph": graph, "live": live})


def _stays_alike(network: Network, chain: Chain) -> bool:
    """Return whether layers of which nothing moves take no more time and memory than if it moved and stayed."""

    def is_least(modes: list[Mode]) -> bool:
        first = modes[0]
        return all(
            first.activation_bytes <= mode.activation_bytes + mode.offloaded_bytes
            and first.working_bytes <= mode.working_bytes
            and first.backward_ns <= mode.backward_ns
            for mode in modes
        )

    return all(is_least([run.layer.modes[kind] for kind in chain]) for run in network.runs)
