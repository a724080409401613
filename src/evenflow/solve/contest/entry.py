"""A candidate of a contest: a schedule with a rule for its cells, its race, and what others prove of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evenflow.language import _
from evenflow.model import CellRule, HostLink, Plan
from evenflow.solve.best_outcome import ScheduleCandidate
from evenflow.solve.contest.frugal import keeps_no_more
from evenflow.solve.outcome import Outcome, Status
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.race import Race
from evenflow.solve.recompute_ways import BoundPurpose


@dataclass(kw_only=True, eq=False)
class Entry:
    """A candidate with its race and its best outcome so far."""

    schedule: str
    num_chunks: int
    group_size: int | None
    floor_ns: int
    """Lower bound on its plans beside that of its race."""
    rank_order: tuple[int, ...] = ()
    """For each rank, which of those of the request it is; empty: as they are there."""
    host_link: HostLink | None = None
    """The link to the host; None: that of the request."""
    releases_attention: bool = False
    """Whether attention goes backward as early as it can beside forwards."""
    rule: CellRule | None = None
    """Rule of its cells, where it is not that of the request."""
    recomputation: str = ""
    """What the rule is, as a phrase."""
    bounds: BoundPurpose | None = None
    """What it only bounds, where no one can run its plans."""
    shares_of: tuple[str, ...] = ()
    """The kinds of which cells may hold a share, where it bounds these plans."""
    covered_by: tuple["Entry", ...] = ()
    """Entries whose plans include all of its own, so that their bounds hold for it too; with all that cover these."""
    less: "Entry | None" = None
    """The entry whose cells recompute one layer less."""
    frugal: tuple["Entry", ...] = ()
    """Entries that keep no more of any layer: where nothing fits under one of them, nothing fits here."""
    known: tuple[Plan, ...] = ()
    """Plans that are known and that it allows: its own is not longer."""
    known_ns: float = float("inf")
    """Makespan of the shortest of them and of the even plan, once it has a race."""
    is_beaten: bool = False
    """Whether it is proven, before any turn, that none of its plans is shorter than the best."""
    learnt: Plan | None = None
    """The plan of another candidate that its race has heard of last."""
    race: Race | None = None
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def makespan_ns(self) -> float:
        """Makespan of its best plan so far."""
        known = None if self.outcome is None or self.bounds is not None else self.outcome.makespan_ns
        return float("inf") if known is None else known

    @property
    def shortest_ns(self) -> float:
        """Makespan of the shortest plan that it has found or knew before its first turn."""
        return min(self.makespan_ns, self.known_ns)

    @property
    def lower_bound_ns(self) -> float:
        """Lower bound on its plans; infinite where it has none."""
        return max(entry._own_bound_ns for entry in (self, *self.covered_by))

    @property
    def _own_bound_ns(self) -> float:
        if self.reason or self.fits_nothing:
            return float("inf")
        return self.floor_ns if self.outcome is None else max(self.floor_ns, self.outcome.lower_bound_ns)

    @property
    def order(self) -> tuple[str, int, int | None, tuple[int, ...], bool]:
        """What says the order of work of its plans, also inside of pairs, and which rank is where."""
        return self.schedule, self.num_chunks, self.group_size, self.rank_order, self.releases_attention

    @property
    def counts_layers(self) -> bool:
        """Whether it is one of several numbers of layers that every cell recomputes, all of them included."""
        return self.bounds is None and (self.less is not None or (self.rule is not None and self.rule.full is not None))

    @property
    def fits_nothing(self) -> bool:
        """Whether it is proven that none of its plans fits, by itself or by one that keeps no more."""
        return any(
            entry.outcome is not None and entry.outcome.status is Status.INFEASIBLE for entry in (self, *self.frugal)
        )

    def may_refute(self, below_ns: float) -> bool:
        """Return whether this candidate may still prove that none of its plans takes less than `below_ns`."""
        best_ns = None if self.outcome is None else self.outcome.makespan_ns
        return self.race is not None and (best_ns is None or best_ns >= below_ns)

    @property
    def is_late(self) -> bool:
        """Whether it has no turn of its own at first: its cells recompute two layers more than those of a plan."""
        other = self.less.less if self.less else None
        while other is not None:
            if other.makespan_ns < float("inf"):
                return True
            other = other.less
        return False

    @property
    def candidate(self) -> ScheduleCandidate:
        """The candidate as it is reported."""
        outcome, bound = self.outcome, self.lower_bound_ns
        if outcome is not None and bound < float("inf"):
            outcome = with_floor(outcome, int(bound))
        return ScheduleCandidate(
            schedule=self.schedule,
            num_chunks=self.num_chunks,
            group_size=self.group_size,
            rank_order=self.rank_order,
            host_link=self.host_link,
            recomputation=self.recomputation,
            outcome=outcome,
            reason=self.reason or ("" if self.outcome else self._untried),
            is_bounded=not self.reason,
        )

    @property
    def _untried(self) -> str:
        if self.fits_nothing:
            return _("what keeps less does not fit")
        if self.is_beaten:
            return _("proven not to be shorter")
        if any(cover.outcome is not None for cover in self.covered_by):
            return _("bounded together with others")
        return _("the time ran out first")

    @property
    def preference(self) -> tuple[float, float, float]:
        """Sort key, smallest for the best: makespan, then layers that recompute, then peak memory."""
        simulation = self.outcome.simulation if self.outcome and self.bounds is None else None
        if simulation is None:
            return self.makespan_ns, float("inf"), float("inf")
        return self.makespan_ns, simulation.plan.num_recomputed, max(simulation.peak_memory_bytes)


def relate(entry: Entry, others: Sequence[Entry]) -> None:
    """Note which of the others that differ from an entry in their rule alone keep no more than it does, or no less."""
    for other in others:
        if entry.race is None or other.race is None or entry.bounds is not None or other.bounds is not None:
            continue
        if (entry.order, entry.host_link) == (other.order, other.host_link):
            for less, more in ((entry, other), (other, entry)):
                assert less.race is not None
                assert more.race is not None
                if keeps_no_more(less.race.problem, more.race.problem) and not any(less is old for old in more.frugal):
                    more.frugal += (less,)


def with_floor(outcome: Outcome, floor_ns: int) -> Outcome:
    """Return `outcome` with its lower bound raised to one that holds for all plans in any order."""
    if outcome.status is Status.INFEASIBLE or floor_ns <= outcome.lower_bound_ns:
        return outcome
    makespan_ns = outcome.makespan_ns
    if makespan_ns is None:
        return replace(outcome, lower_bound_ns=floor_ns)
    is_optimal = floor_ns >= makespan_ns * (1 - 2 * TOLERANCE)
    return replace(
        outcome,
        status=Status.OPTIMAL if is_optimal else outcome.status,
        lower_bound_ns=min(floor_ns, makespan_ns),
    )
