"""The choice of the next target for the prover, and of the time for it.

A target is a makespan that the prover tries to show out of reach. The closer it is to the best plan, the more its
refutation proves and the longer it takes; one far below is refuted soon. So the prover first aims straight at the best
plan, and at lower targets when that fails::

    straight   --refuted-->  done
    straight   --not---->    a margin of at least 1 % below, at least a quarter and at most half of the gap
    margin     --refuted-->  half the margin, below 0.2 % straight again
    margin     --not---->    twice the margin
"""

from dataclasses import dataclass

from evenflow.solve.proof import TOLERANCE

FIRST_SHARE = 0.35
"""Share of the time limit for the first attempt, straight at the best plan: most small problems end there."""
FIRST_SECONDS = 20.0
"""Most seconds of the first attempt: a problem not solved by then is solved sooner with lower targets first."""
LATER_SHARE = 0.7
"""Share of the time left that a later attempt may take, so that a failure leaves time for another."""
FIRST_MARGIN = 0.01
"""First margin below the best plan, as a fraction of the makespan."""
LEAST_MARGIN = 0.002
"""Smallest margin: targets with a smaller one take as long as those without."""
MARGIN_OF_CUTS = 0.015
"""Largest margin for a search over cuts: its time hardly depends on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The distance of the next target from the best plan."""

    margin: float = 0.0
    """Distance as a fraction of the makespan; 0 is straight at the best plan."""
    is_first: bool = True

    def target_ns(self, makespan_ns: int) -> int:
        """Return the target in ns below a best plan of `makespan_ns`."""
        return makespan_ns - max(1, int(makespan_ns * max(self.margin, TOLERANCE)))

    def seconds(self, *, limit_s: float, left_s: float) -> float:
        """Return the most seconds for the attempt, with `left_s` left of a time limit of `limit_s`."""
        share = min(FIRST_SHARE * limit_s, FIRST_SECONDS) if self.is_first else LATER_SHARE * left_s
        return min(share, left_s)

    def next(self, *, refuted: bool, gap: float, searches_cuts: bool) -> "Aim":
        """Return the aim after an attempt that left a `gap`, as a fraction of the makespan."""
        if refuted:
            wanted = self.margin / 2
        else:
            wanted = 2 * self.margin if self.margin else max(FIRST_MARGIN, gap / 4)
        margin = min(wanted, gap / 2) if wanted >= LEAST_MARGIN else 0.0
        if searches_cuts:  # targets in between would take longer than the last one alone
            margin = 0.0 if refuted else min(margin, MARGIN_OF_CUTS)
        return Aim(margin=margin, is_first=False)
