"""The outcome of `plan_best`: the best plan, the results of the other candidates, and a bound over all of them."""

from dataclasses import dataclass, replace

from evenflow.language import _, _n
from evenflow.model import HostLink
from evenflow.notebook import InNotebook, text_of
from evenflow.solve.outcome import Outcome, Status
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.rank_orders import shown_order
from evenflow.units import megabytes, milliseconds


def fetches_text(link: HostLink) -> str:
    """Return when a link to the host fetches, and what it sends has left, as it is given."""
    options = [link.ahead_text]
    options += [] if link.buffers is None else [f"--host-buffers {link.buffers}"]
    options += [] if link.behind == 1 else [f"--host-behind {link.behind}"]
    return " ".join(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCandidate:
    """A schedule family with a number of chunks, a group size and a way of recomputing, and its outcome."""

    schedule: str
    num_chunks: int
    group_size: int | None = None
    """Microbatches of a group in an interleaved schedule; None: the usual size, or no groups."""
    rank_order: tuple[int, ...] = ()
    """For each rank, which of those of the request it is; empty: as they are there."""
    host_link: HostLink | None = None
    """The link to the host; None: that of the request."""
    recomputation: str = ""
    """The one way of recomputing that all cells have, as a phrase; empty where they may differ."""
    outcome: Outcome | None
    """Outcome of its own race; None where it was not tried."""
    reason: str = ""
    """Reason why it was not tried; empty where it was."""
    is_bounded: bool = True
    """Whether the lower bound over all candidates holds for this one: it was tried, or would have been in more time."""

    @property
    def makespan_ns(self) -> int | None:
        """Makespan of the best plan found; there may be a shorter one, but not below the bound."""
        return None if self.outcome is None else self.outcome.makespan_ns

    @property
    def label(self) -> str:
        """Schedule, chunks, groups and recomputation as text."""
        name = _n("{schedule}, 1 chunk", "{schedule}, {count} chunks", count=self.num_chunks, schedule=self.schedule)
        if self.group_size is not None:
            name = _("{schedule}, groups of {size}", schedule=name, size=self.group_size)
        if self.rank_order:
            name = _("{name}, ranks {ranks}", name=name, ranks=shown_order(self.rank_order))
        if self.host_link is not None:
            kept = f" --offload-to {self.host_link.keepers_text}" if self.host_link.keepers_text else ""
            name = _("{name}, {fetches}", name=name, fetches=fetches_text(self.host_link) + kept)
        return _("{name}, {what}", name=name, what=self.recomputation) if self.recomputation else name


@dataclass(frozen=True, kw_only=True)
class BestOutcome(InNotebook):
    """The best plan of all candidates, with its own certificate and one over all."""

    outcome: Outcome
    """The outcome of the best candidate; without any plan, the reason why there is none."""
    candidates: tuple[ScheduleCandidate, ...]
    """All candidates, the shortest makespan first, then those without a plan."""
    lower_bound_ns: int
    """Lower bound on all plans of all candidates within the limit; 0 where none is known."""
    by_cell_bound_ns: int | None = None
    """Lower bound on plans like the best one whose fetches are ahead by any number of actions in each cell; None where
    that was not looked at.
    """
    solve_seconds: float

    @property
    def best(self) -> ScheduleCandidate | None:
        """The candidate with the best plan; None without a plan."""
        return self.candidates[0] if self.outcome.simulation else None

    @property
    def gap(self) -> float | None:
        """The largest fraction of the makespan that any plan of any candidate could save."""
        makespan = self.outcome.makespan_ns
        return None if makespan is None else 1 - self.lower_bound_ns / makespan

    def can_win(self, candidate: ScheduleCandidate) -> bool:
        """Return whether the candidate may still have a shorter plan than the best one."""
        outcome, makespan = candidate.outcome, self.outcome.makespan_ns
        if outcome is None or outcome.status is Status.INFEASIBLE or makespan is None:
            return False
        return outcome.lower_bound_ns < makespan * (1 - 2 * TOLERANCE)

    def verdict(self, candidate: ScheduleCandidate) -> str:
        """Return the result of a candidate in a few words."""
        outcome = candidate.outcome
        if outcome is None:
            return _("not tried: {reason}", reason=candidate.reason)
        if outcome.infeasibility is not None:
            needed = f"{megabytes(outcome.infeasibility.smallest_limit_bytes):,.0f} MB"
            if outcome.infeasibility.proven:
                return _("infeasible: needs {needed}", needed=needed)
            return _("infeasible: needs at most {needed}", needed=needed)
        if outcome.makespan_ns is None:
            return _("no plan in the time given")
        if candidate is self.best:
            return _("best")
        return _("open: may have a shorter plan") if self.can_win(candidate) else _("proven not to be shorter")

    def certificate(self) -> str:
        """Return one sentence on the best plan against all plans of all candidates."""
        if self.outcome.makespan_ns is None or self.gap is None:
            return self.outcome.certificate()
        bounded = [candidate for candidate in self.candidates if candidate.is_bounded]
        tried = {(candidate.schedule, candidate.num_chunks, candidate.group_size) for candidate in bounded}
        orders = len({candidate.rank_order for candidate in bounded})
        ways = len({candidate.host_link for candidate in bounded})
        several = replace(
            self.outcome.restrictions,
            group_sizes=self.outcome.restrictions.group_sizes if len(tried) == 1 else (),
            copies_timed=self.outcome.restrictions.copies_timed and ways == 1,
        )
        split = replace(self.outcome, rank_order=(), restrictions=several).among
        split += _(" in any of {count} orders of the ranks", count=orders) if orders > 1 else ""
        if any(candidate.host_link and candidate.host_link.keepers_text for candidate in bounded):
            split += _(" with any of {count} ways to move activations", count=ways) if ways > 1 else ""
        else:
            split += _(" with any of {count} ways to fetch from the host", count=ways) if ways > 1 else ""
        schedules = _n("this schedule", "these {count} schedules", count=len(tried))
        if self.gap <= 2 * TOLERANCE:
            shortest = f"{milliseconds(self.outcome.makespan_ns):,.3f} ms"
            return _(
                "best of all, to 2 parts in a million: no plan of {schedules}{split} is shorter than {shortest}",
                schedules=schedules,
                split=split,
                shortest=shortest,
            )
        if self.lower_bound_ns <= 0:
            return _("best so far of {schedules}: the time ran out before all were bounded", schedules=schedules)
        return _(
            "no plan of {schedules}{split} is shorter than {bound_ms:,.3f} ms: "
            "another one could save at most {gap:.2f} %",
            schedules=schedules,
            split=split,
            bound_ms=milliseconds(self.lower_bound_ns),
            gap=100 * self.gap,
        )

    @property
    def fetches_text(self) -> str:
        """One sentence on numbers of actions ahead by cell; empty where they were not looked at."""
        makespan_ns = self.outcome.makespan_ns
        if self.by_cell_bound_ns is None or makespan_ns is None:
            return ""
        gap = 1 - self.by_cell_bound_ns / makespan_ns
        if gap <= 2 * TOLERANCE:
            return _("no number of actions ahead of its own for any cell makes a shorter plan of this schedule")
        return _(
            "with a number of actions ahead of its own for each cell, a plan of this schedule could save at most "
            "{gap:.2f} %",
            gap=100 * gap,
        )

    def __str__(self) -> str:
        """Return the answer that ``evenflow plan`` prints, in whole."""
        return text_of(self) or self.summary()

    def summary(self) -> str:
        """Return the plan, its evidence, and a line for each candidate."""
        lines = [self.outcome.summary(), self.certificate(), *filter(None, (self.fetches_text,))]
        for candidate in self.candidates:
            time = "-" if candidate.makespan_ns is None else f"{milliseconds(candidate.makespan_ns):,.3f} ms"
            lines.append(f"{candidate.label}: {time}, {self.verdict(candidate)}")
        return "\n".join(lines)
