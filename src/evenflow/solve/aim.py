"""The choice of the next target for the prover, and of the time for it.

A target is a makespan that the prover tries to show out of reach. The closer it is to the best plan, the more its
refutation proves and the longer it takes; one far below is refuted soon. So the prover first aims straight at the best
plan, and at lower targets when that fails::

    straight   --refuted-->  done
    straight   --not---->    a margin of at least 1 % below, at least a quarter and at most half of the gap
    margin     --refuted-->  half the margin, below 0.2 % straight again
    margin     --not---->    twice the margin

A search over cuts takes many times as long for every per cent that a target is higher. So it comes up from two fifths
of the gap below the best plan, after a short attempt to aim straight: to the highest target that it has the time for,
as the time for the last one says, but by three tenths of the margin at least and by half of it at most. With one that
is nearly decided, or a lower one for whose rest there is time, it goes on, for all the time that is left and also where
a better plan has become known meanwhile.
"""

import math
from dataclasses import dataclass

from evenflow.solve.proof import TOLERANCE, CutEffort

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
CUTS_FIRST_SHARE = 0.03
"""Share of the time limit for the first attempt where it comes to a search over cuts."""
CUTS_LOWEST = 0.4
"""Share of the gap that is the first margin of a search over cuts."""
CUTS_STEP, CUTS_LEAP = 0.7, 0.5
"""Most and least of the margin that is left after one was refuted, as shares, for a search over cuts: what it has
learned makes the next one shorter, so a step costs little, and one that is too long costs all."""
NEARLY_DONE = 0.15
"""Share of the cut graphs left up to which a search over cuts goes on with a target that it has not decided."""
CUTS_GROWTH = 4.0
"""Times as long as a search over cuts takes for a target that is one per cent higher, about."""
_NOT_WORTH_A_STEP = 1.5
"""Times the first margin up to which a search over cuts aims at that instead: the next step would repeat most of it."""
_LEAST_SECONDS = 0.1
"""Seconds of a search below which they say little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The distance of the next target from the best plan."""

    margin: float = 0.0
    """Distance as a fraction of the makespan; 0 is straight at the best plan."""
    is_first: bool = True
    kept_ns: int | None = None
    """A target that is nearly decided, as far as it lies below the best plan; None: the margin says which."""

    def target_ns(self, makespan_ns: int, *, bound_ns: int) -> int:
        """Return the target in ns below a best plan of `makespan_ns` and above what is proven already, `bound_ns`.

        Since the margin was chosen, a better plan may have come so close to the bound that it reaches below that.
        """
        if self.kept_ns is not None and bound_ns < self.kept_ns < makespan_ns:
            return self.kept_ns
        target_ns = makespan_ns - max(1, int(makespan_ns * max(self.margin, TOLERANCE)))
        return target_ns if target_ns > bound_ns else (makespan_ns + bound_ns) // 2

    def seconds(self, *, limit_s: float, left_s: float) -> float:
        """Return the most seconds for the attempt, with `left_s` left of a time limit of `limit_s`."""
        if self.kept_ns is not None:
            return left_s
        share = min(FIRST_SHARE * limit_s, FIRST_SECONDS) if self.is_first else LATER_SHARE * left_s
        return min(share, left_s)

    def seconds_of_cuts(self, *, limit_s: float, left_s: float) -> float:
        """Return the same where the attempt comes to a search over cuts."""
        most = self.seconds(limit_s=limit_s, left_s=left_s)
        return min(most, CUTS_FIRST_SHARE * limit_s) if self.is_first else most

    def next(
        self,
        target_ns: int,
        *,
        refuted: bool,
        gap: float,
        left_s: float,
        cuts: CutEffort | None = None,
        branches: bool = False,
    ) -> "Aim":
        """Return the aim after an attempt at a target that left a `gap`, a fraction of the makespan, and `left_s`.

        `cuts` is what was done to search cuts; None: nothing. `branches` says that a search over boxes can go on.
        """
        if branches and not refuted:
            return Aim(margin=self.margin, is_first=False, kept_ns=target_ns)
        searches_cuts = cuts is not None
        if refuted:
            wanted = self.margin * (CUTS_STEP if searches_cuts else 0.5)
            if cuts is not None:
                times = LATER_SHARE * left_s / max(cuts.seconds_for_all, _LEAST_SECONDS)
                leap = self.margin - 0.01 * math.log(max(1.0, times), CUTS_GROWTH)
                wanted = min(wanted, max(leap, CUTS_LEAP * self.margin))
                if FIRST_MARGIN < wanted <= _NOT_WORTH_A_STEP * FIRST_MARGIN:
                    wanted = FIRST_MARGIN
        elif cuts is not None and (
            # What a straight attempt leaves undecided is the hardest part, and says nothing of how long that takes.
            cuts.share_left <= NEARLY_DONE or (self.margin and cuts.seconds_for_rest < left_s)
        ):
            return Aim(margin=self.margin, is_first=False, kept_ns=target_ns)
        elif searches_cuts:
            wanted = (self.margin + gap) / 2 if self.margin else CUTS_LOWEST * gap
        else:
            wanted = 2 * self.margin if self.margin else max(FIRST_MARGIN, gap / 4)
        most = gap if searches_cuts else gap / 2
        return Aim(margin=min(wanted, most) if wanted >= LEAST_MARGIN else 0.0, is_first=False)
