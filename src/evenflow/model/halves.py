"""The halves of a layer and the exchanges between them, and what a forward saves that runs beside a backward.

    forward     attention   dispatch   MLP   combine
    backward    combine   MLP   dispatch   attention

Frameworks run a forward of one microbatch beside a backward of another, layer by layer: while one computes, the other
exchanges tokens between experts. The parts of a pair of layers stand in four windows, one after the other:

    exchanged   combine of B     dispatch of F   dispatch of B   combine of F
    computed    attention of F   MLP of B        MLP of F        attention of B

A window ends when both of its parts have: what comes next in either stream waits for one and depends on the other.
[Megatron-LM, `TransformerLayerSchedulePlan.run`]

A pair holds what its layers keep one after the other: attention of F comes, the MLP of B goes, the MLP of F comes and
attention of B goes (see `evenflow.simulate.kernels.held_beside`).

Where weight gradients of the MLP are delayed, the dispatch of B need not wait for them: the second and third window are
one, in which they run behind the other gradients of the MLP. [Megatron-LM, `delay_wgrad_compute`; DeepSeek-V3]
"""

from dataclasses import dataclass, replace
from math import inf

from evenflow.errors import InputError
from evenflow.language import _
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
    mlp_weight_ns: int = 0
    """The part of the MLP's backward, its weight gradients, for which the exchange behind it does not wait."""

    def __post_init__(self) -> None:
        for part_ns in (self.dispatch_ns, self.mlp_ns, self.combine_ns, self.mlp_weight_ns):
            TIME_NS.check(part_ns, place="halves")
        if self.mlp_weight_ns > self.mlp_ns:
            raise InputError(
                value=self.mlp_weight_ns,
                rule=_("must be a part of the {mlp_ns} ns of the MLP", mlp_ns=self.mlp_ns),
                place=_("halves, weight gradients of the MLP"),
            )

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
            mlp_weight_ns=int(self.mlp_weight_ns / times),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The halves of both passes of a layer."""

    forward: PassHalves
    backward: PassHalves
    releases: bool = False
    """Whether attention of B goes before the MLP of F (see `releasing`)."""

    def undelayed(self) -> "Halves":
        """Return the halves where the exchange behind the MLP waits for its weight gradients too."""
        return replace(self, backward=replace(self.backward, mlp_weight_ns=0))

    def releasing(self) -> "Halves":
        """Return the halves where attention of B goes before the MLP of F, to free what it keeps sooner.

        Nothing then runs beside the dispatch of B and the combine of F, which count as work; weight gradients are not
        delayed. [Megatron-LM, `ep_overlap_early_attn_memory_release`]
        """
        ahead, back = self.forward, self.backward
        return Halves(
            forward=replace(ahead, mlp_ns=ahead.mlp_ns + ahead.combine_ns, combine_ns=0),
            backward=replace(back, dispatch_ns=0, mlp_weight_ns=0),
            releases=True,
        )

    def divided(self, times: float) -> "Halves":
        """Return the halves of a layer that takes a `times`-th of the time."""
        return replace(self, forward=self.forward.divided(times), backward=self.backward.divided(times))


def saved_ns(
    forward: PassHalves, forward_ns: int, backward: PassHalves, backward_ns: int, *, slowdown: float = 1.0
) -> int:
    """Return how much sooner a forward and a backward of one layer each are done that run beside each other.

    `forward_ns` and `backward_ns` are the times of both by themselves, without what the backward computes again: that
    comes before its windows. Computation takes `slowdown` times as long while an exchange runs beside it.
    """
    first_ns = _saved(backward.combine_ns, forward_ns - forward.total_ns, slowdown)
    last_ns = _saved(forward.combine_ns, backward_ns - backward.total_ns, slowdown)
    if backward.mlp_weight_ns:
        return first_ns + _saved_around_weights(forward, backward, slowdown) + last_ns
    second_ns = _saved(forward.dispatch_ns, backward.mlp_ns, slowdown)
    third_ns = _saved(backward.dispatch_ns, forward.mlp_ns, slowdown)
    return first_ns + second_ns + third_ns + last_ns


def saved_by_exchange(
    forward: PassHalves, forward_ns: int, backward: PassHalves, backward_ns: int, *, slowdown: float = 1.0
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return what `saved_ns` owes to dispatch and combine: of the forward, and of the backward.

    Arguments are those of `saved_ns`, which is the sum. What delayed weight gradients save beside the windows without
    them is owed to the dispatch of the backward, and only what is more than that to the dispatch of the forward.
    """
    plain = replace(backward, mlp_weight_ns=0)
    ahead = [
        _saved(forward.dispatch_ns, backward.mlp_ns, slowdown),
        _saved(forward.combine_ns, backward_ns - backward.total_ns, slowdown),
    ]
    back = [
        _saved(backward.dispatch_ns, forward.mlp_ns, slowdown),
        _saved(backward.combine_ns, forward_ns - forward.total_ns, slowdown),
    ]
    if backward.mlp_weight_ns:
        more_ns = saved_ns(forward, forward_ns, backward, backward_ns, slowdown=slowdown)
        more_ns -= saved_ns(forward, forward_ns, plain, backward_ns, slowdown=slowdown)
        of_back_ns = min(more_ns, int(backward.dispatch_ns / slowdown) - back[0])
        back[0] += of_back_ns
        ahead[0] += more_ns - of_back_ns
    return (ahead[0], ahead[1]), (back[0], back[1])


def _saved(exchange_ns: int, compute_ns: int, slowdown: float) -> int:
    """Return how much shorter a window is than its two parts one after the other; rounded down."""
    if compute_ns * slowdown <= exchange_ns:
        return compute_ns  # all of it is done while the exchange runs
    return int(exchange_ns / slowdown)


def _saved_around_weights(forward: PassHalves, backward: PassHalves, slowdown: float) -> int:
    """Return how much shorter the second and third window are than their parts, with weight gradients in both.

    One stream exchanges: the dispatch of F and, behind the other gradients of the MLP, that of B. The other computes:
    those gradients, weight gradients and, behind the dispatch of F, the MLP of F. Rounded down.
    """
    gradients_ns = backward.mlp_ns - backward.mlp_weight_ns
    exchanging = [float(forward.dispatch_ns), float(backward.dispatch_ns)]
    computing = [float(gradients_ns), float(backward.mlp_weight_ns), float(forward.mlp_ns)]
    together_ns = sum(exchanging) + sum(computing)
    spent_ns = 0.0
    while exchanging or computing:
        waits = len(exchanging) == 1 and len(computing) == 3  # the dispatch of B, for the gradients
        exchanges = bool(exchanging) and not waits
        computes = bool(computing) and not (len(computing) == 1 and len(exchanging) == 2)
        pace = 1 / slowdown if exchanges else 1.0
        step_ns = min(
            exchanging[0] if exchanges else inf,
            computing[0] / pace if computes else inf,
        )
        spent_ns += step_ns
        if exchanges:
            exchanging[0] -= step_ns
        if computes:
            computing[0] = 0.0 if step_ns == computing[0] / pace else computing[0] - step_ns * pace
        for stream in (exchanging, computing):
            if stream and stream[0] <= 0:
                del stream[0]
    return int(together_ns - spent_ns)


def exchange_spans(
    forward: PassHalves, forward_ns: int, backward: PassHalves, backward_ns: int, *, slowdown: float = 1.0
) -> tuple[tuple[int, int], ...]:
    """Return begin and end of the exchanges of a pair of layers, from its begin on: combine of B, dispatch of F,
    dispatch of B, combine of F.

    Arguments are those of `saved_ns`, which gives the end of the pair.
    """
    attention_ns = forward_ns - forward.total_ns
    second = backward.combine_ns + attention_ns - _saved(backward.combine_ns, attention_ns, slowdown)
    dispatched = second + forward.dispatch_ns
    if backward.mlp_weight_ns:
        gradients_ns = backward.mlp_ns - backward.mlp_weight_ns
        third = second + gradients_ns + forward.dispatch_ns - _saved(forward.dispatch_ns, gradients_ns, slowdown)
        last = second + forward.dispatch_ns + backward.dispatch_ns + backward.mlp_ns + forward.mlp_ns
        last -= _saved_around_weights(forward, backward, slowdown)
    else:
        third = dispatched + backward.mlp_ns - _saved(forward.dispatch_ns, backward.mlp_ns, slowdown)
        last = third + backward.dispatch_ns + forward.mlp_ns - _saved(backward.dispatch_ns, forward.mlp_ns, slowdown)
    return (
        (0, backward.combine_ns),
        (second, dispatched),
        (third, third + backward.dispatch_ns),
        (last, last + forward.combine_ns),
    )


def released_spans(
    forward: PassHalves, forward_ns: int, backward: PassHalves, backward_ns: int, *, slowdown: float = 1.0
) -> tuple[tuple[int, int], ...]:
    """Return the same where attention of B goes before the MLP of F (see `Halves.releasing`).

    The dispatch of B comes behind the second window, then attention of B, the MLP of F and its combine.
    """
    attention_ns = forward_ns - forward.total_ns
    second = backward.combine_ns + attention_ns - _saved(backward.combine_ns, attention_ns, slowdown)
    third = second + forward.dispatch_ns + backward.mlp_ns
    third -= _saved(forward.dispatch_ns, backward.mlp_ns, slowdown)
    last = third + backward.dispatch_ns + backward_ns - backward.total_ns + forward.mlp_ns
    return (
        (0, backward.combine_ns),
        (second, second + forward.dispatch_ns),
        (third, third + backward.dispatch_ns),
        (last, last + forward.combine_ns),
    )
