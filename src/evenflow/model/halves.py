"""The halves of a layer and the exchanges between them, and what a forward saves that runs beside a backward.

    forward     attention   dispatch   MLP   combine
    backward    combine   MLP   dispatch   attention

Frameworks run a forward of one microbatch beside a backward of another, layer by layer: while one computes, the other
exchanges tokens between experts. The parts of a pair of layers stand in four windows, one after the other:

    exchanged   combine of B     dispatch of F   dispatch of B   combine of F
    computed    attention of F   MLP of B        MLP of F        attention of B

A window ends when both of its parts have: what comes next in either stream waits for one and depends on the other.
[Megatron-LM, `TransformerLayerSchedulePlan.run`]
"""

from dataclasses import dataclass

from evenflow.ranges import TIME_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class PassHalves:
    """The parts of a forward or of a plain backward that are known apart; the rest of it is that of attention."""

    dispatch_ns: int = 0
    """Time in which tokens go to their experts, or their gradients come back from there."""
    mlp_ns: int = 0
    """Time of the experts, or of the MLP."""
    combine_ns: int = 0
    """Time in which tokens come back from their experts, or their gradients go there."""

    def __post_init__(self) -> None:
        for part_ns in (self.dispatch_ns, self.mlp_ns, self.combine_ns):
            TIME_NS.check(part_ns, place="halves")

    @property
    def exchange_ns(self) -> int:
        """Time of both exchanges."""
        return self.dispatch_ns + self.combine_ns

    @property
    def total_ns(self) -> int:
        """Time of all but attention."""
        return self.exchange_ns + self.mlp_ns

    def divided(self, times: float) -> "PassHalves":
        """Return the halves of a pass that takes a `times`-th of the time, none rounded up."""
        return PassHalves(
            dispatch_ns=int(self.dispatch_ns / times),
            mlp_ns=int(self.mlp_ns / times),
            combine_ns=int(self.combine_ns / times),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The halves of both passes of a layer."""

    forward: PassHalves
    backward: PassHalves

    def divided(self, times: float) -> "Halves":
        """Return the halves of a layer that takes a `times`-th of the time."""
        return Halves(forward=self.forward.divided(times), backward=self.backward.divided(times))


def saved_ns(
    forward: PassHalves, forward_ns: int, backward: PassHalves, backward_ns: int, *, slowdown: float = 1.0
) -> int:
    """Return how much sooner a forward and a backward of one layer each are done that run beside each other.

    `forward_ns` and `backward_ns` are the times of both by themselves, without what the backward computes again: that
    comes before its windows. Computation takes `slowdown` times as long while an exchange runs beside it.
    """
    windows = (
        (backward.combine_ns, forward_ns - forward.total_ns),
        (forward.dispatch_ns, backward.mlp_ns),
        (backward.dispatch_ns, forward.mlp_ns),
        (forward.combine_ns, backward_ns - backward.total_ns),
    )
    return sum(_saved(exchange_ns, compute_ns, slowdown) for exchange_ns, compute_ns in windows)


def _saved(exchange_ns: int, compute_ns: int, slowdown: float) -> int:
    """Return how much shorter a window is than its two parts one after the other; rounded down."""
    if compute_ns * slowdown <= exchange_ns:
        return compute_ns  # all of it is done while the exchange runs
    return int(exchange_ns / slowdown)
