"""When tokens travel between experts in the passes of a part that is measured, and the halves that follow.

Exchanges are told by the operators that a pass dispatches: all-to-alls of `torch.distributed`, functional ones too,
and operators of DeepEP and its like. Each is waited for, so that what runs between two of them is computation. The
experts are the longest computation between any two, as in traces (see `profiles.traces.formats.exchanges`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evenflow.model import Halves, PassHalves
from evenflow.profiles.traces.formats.exchanges import Span, pass_halves
from evenflow.profiles.traces.formats.kernel_names import ALL_TO_ALL, Doing, kernel_doing

_EAGER, _FUNCTIONAL = "c10d", "_c10d_functional"
"""Namespaces of the operators of `torch.distributed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedPass:
    """Begin and end of a pass, and of every exchange of tokens in it, in nanoseconds."""

    begin_ns: int
    end_ns: int
    exchanges: tuple[tuple[int, int], ...] = ()

    @property
    def total_ns(self) -> int:
        """Time of the pass."""
        return self.end_ns - self.begin_ns

    def halves(self, *, is_forward: bool) -> PassHalves | None:
        """Return its exchanges and what is computed between them; None unless tokens go there and back."""
        return pass_halves(self._spans(), is_forward=is_forward)

    def _spans(self) -> Iterator[Span]:
        """Yield exchanges and, as computation, all between them."""
        done_ns = self.begin_ns
        for start_ns, end_ns in self.exchanges:
            if start_ns > done_ns:
                yield done_ns, start_ns, False
            yield start_ns, end_ns, True
            done_ns = end_ns
        if self.end_ns > done_ns:
            yield done_ns, self.end_ns, False


class ExchangeLog(TorchDispatchMode):
    """Notes begin and end of every exchange of tokens that runs inside, by a clock that waits for the device."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        super().__init__()
        self._now_ns = now_ns
        self._spans: list[tuple[int, int]] = []

    def taken(self) -> tuple[tuple[int, int], ...]:
        """Return the exchanges since the last call."""
        spans, self._spans = tuple(self._spans), []
        return spans

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator; an exchange is waited for."""
        if not _exchanges_tokens(func):
            return func(*args, **(kwargs or {}))
        begin_ns = self._now_ns()
        result = func(*args, **(kwargs or {}))
        _wait_for(func, result)
        self._spans.append((begin_ns, self._now_ns()))
        return result


def measured_halves(
    forwards: Sequence[NotedPass],
    backwards: Sequence[NotedPass],
    input_gradients: Sequence[NotedPass],
    *,
    forward_ns: int,
    backward_ns: int,
) -> Halves | None:
    """Return the halves of a part from passes whose exchanges were noted; None unless all go there and back.

    They are the mean shares of the passes, of a forward of `forward_ns` and a backward of `backward_ns`, rounded down.
    Weight gradients of the experts are what they take longer in a whole backward than in that of the input alone, each
    at its fastest.
    """
    ahead = [each.halves(is_forward=True) for each in forwards]
    back = [each.halves(is_forward=False) for each in backwards]
    forward, backward = _mean(ahead, forwards, forward_ns), _mean(back, backwards, backward_ns)
    if forward is None or backward is None:
        return None
    without = [half.mlp_ns for each in input_gradients if (half := each.halves(is_forward=False)) is not None]
    whole_ns = min(half.mlp_ns for half in back if half is not None)
    share = max(0.0, 1 - min(without) / whole_ns) if without else 0.0
    return Halves(
        forward=forward,
        backward=PassHalves(
            dispatch_ns=backward.dispatch_ns,
            mlp_ns=backward.mlp_ns,
            combine_ns=backward.combine_ns,
            mlp_weight_ns=int(backward.mlp_ns * share),
        ),
    )


def _mean(halves: Sequence[PassHalves | None], passes: Sequence[NotedPass], whole_ns: int) -> PassHalves | None:
    known = [half for half in halves if half is not None]
    if not known or len(known) < len(halves):
        return None

    def mean_ns(part: Callable[[PassHalves], int]) -> int:
        shares = [part(half) / max(1, each.total_ns) for half, each in zip(known, passes, strict=True)]
        return int(whole_ns * sum(shares) / len(shares))

    return PassHalves(
        dispatch_ns=mean_ns(lambda half: half.dispatch_ns),
        mlp_ns=mean_ns(lambda half: half.mlp_ns),
        combine_ns=mean_ns(lambda half: half.combine_ns),
    )


def _exchanges_tokens(operator: Any) -> bool:
    namespace, _, name = operator.name().partition("::")
    if namespace in (_EAGER, _FUNCTIONAL):
        return ALL_TO_ALL.search(name) is not None
    return kernel_doing(operator.name()) is Doing.EXCHANGE


def _wait_for(operator: Any, result: Any) -> None:
    """Wait for a collective that goes on behind its call; operators of other libraries wait for themselves."""
    if operator.namespace == _FUNCTIONAL:
        torch.ops._c10d_functional.wait_tensor(result)
    for value in tree_leaves(result) if operator.namespace == _EAGER else ():
        if isinstance(value, torch.ScriptObject):
            dist.Work.unbox(value).wait()
