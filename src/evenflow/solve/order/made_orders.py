"""Orders that are made of a family's pattern for given times, messages and memory.

The order that a family has under its name is made for equal times. Where times differ, its pattern is unrolled by
insertion with these times, and squeezed: forwards and gradients in the order of a pattern, weight gradients in the
gaps, as the authors of zero-bubble schedules make theirs. [ZeroBubble, arXiv:2401.10241, §3.1; arXiv:2405.15362, §3.2]
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.schedule import FAMILIES, NUM_OPS, Op, Schedule, make_schedule
from evenflow.schedule.insertion import STUCK, insert
from evenflow.schedule.pattern import Pattern, unrolled
from evenflow.simulate import Integers, build_graph, run
from evenflow.simulate.compiled import compiled
from evenflow.solve.machine_code import MachineCode
from evenflow.solve.order.kernel_stages import kernel_stages
from evenflow.solve.order.keys import KINDS, Keys
from evenflow.solve.work import Work, unit_work

_GAP_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of a weight gradient that a wait must have so that the gradient is run in it."""
_EARLY = (1, 3, 0, 2)
"""Phases in which actions may be taken before their turn (see `squeeze`)."""
_PATIENCE = (0.0, 0.5, 1.0)
"""Values of the patience of list scheduling (see `list_schedule`)."""


@dataclass(frozen=True, kw_only=True)
class MadeOrder:
    """An order that fits, with its makespan."""

    schedule: Schedule
    makespan_ns: int


def family_orders(name: str, work: Work) -> Iterator[MadeOrder]:
    """Yield the order that family `name` has for equal times, and those made of its pattern for the times of `work`.

    All of them fit in memory. Nothing where the family has not these sizes and placement, splits backwards that may
    not be split, or runs forwards beside backwards that may not.
    """
    if FAMILIES[name].has_pairs and not work.in_pairs:
        return
    sizes = {
        "num_ranks": work.num_ranks,
        "num_chunks": len(work.stage_table),
        "num_microbatches": work.num_microbatches,
        "sequence_splits": work.sequence_splits,
    }
    try:
        order = make_schedule(name, **sizes)
        build_graph(order)
    except InputError:  # sizes that the family does not have
        return
    if order.stage_ranks != work.stage_ranks or (order.splits_backward and not work.may_split):
        return
    if work.fits(order):
        yield MadeOrder(schedule=order, makespan_ns=work.makespan_ns(order))
    none, *some = work.split_choices()
    for pattern, splits in product(FAMILIES[name].patterns, some if order.splits_backward else (none,)):
        for made in pattern_orders(pattern(num_ranks=work.num_ranks), work, splits=splits, name=name):
            if not work.has_copies:
                yield made
            elif work.fits(made.schedule):  # what makes them knows no copies
                yield replace(made, makespan_ns=work.makespan_ns(made.schedule))


def pattern_orders(pattern: Pattern, work: Work, *, splits: NDArray[np.bool_], name: str) -> Iterator[MadeOrder]:
    """Yield orders made of `pattern`, in which the stages of `splits` split their backwards.

    All of them fit, as long as nothing is copied to the host.
    """
    maker = _Maker(work, splits, name)
    rows = unrolled(
        pattern,
        stage_ranks=work.stage_ranks,
        num_units=work.num_units,
        splits=splits,
        sequence_splits=work.sequence_splits,
    )
    slots = np.arange(work.num_units) * pattern.period
    own = np.stack((pattern.forwards, pattern.gradients, pattern.gradients)).astype(float)
    own[1:] += pattern.period * (work.sequence_splits - 1)
    keys: list[Keys] = [own[:, :, np.newaxis] + slots]
    no_messages = np.zeros_like(work.messages)
    for durations, messages in ((_equal_times(work), no_messages), (work.costs.durations, work.messages)):
        order = maker.inserted(rows, durations, messages)
        if order is not None:
            yield MadeOrder(schedule=order, makespan_ns=work.makespan_ns(order))
            keys.append(_starts_of(order, durations, messages, work))
    shares = _GAP_SHARES if splits.any() else (1.0,)
    for share, early in product(shares, _EARLY):
        for key in keys:
            squeezed = maker.squeezed(key, share, early)
            if squeezed is not None:
                yield squeezed
    for key, patience in product(keys, _PATIENCE):
        yield maker.listed(key, patience)


MAKERS = MachineCode()
"""What makes orders."""


def load_makers() -> None:
    """Compile what makes orders, or read it from the cache, by making some for something tiny."""
    for _order in family_orders(
        "zb-h1", unit_work(make_schedule("zb-h1", num_ranks=2, num_chunks=1, num_microbatches=2))
    ):
        pass


class _Maker:
    """What makes orders for some work with some stages that split their backwards."""

    def __init__(self, work: Work, splits: NDArray[np.bool_], name: str) -> None:
        self._work, self._name = work, name
        self._stages = kernel_stages(work, splits)
        self._starts = work.rank_starts(splits)

    def inserted(self, rows: Integers, durations: Integers, messages: Integers) -> Schedule | None:
        """Return the order of `insert` for these times; None where it gets stuck."""
        stages, codes = self._stages, self._codes()
        makespan = compiled(insert)(
            rows, stages.ranks, durations, messages, stages.activation, stages.waiting, stages.room,
            stages.gradient_units, self._starts, codes,
        )  # fmt: skip
        return None if makespan == STUCK else self._schedule(codes)

    def squeezed(self, keys: Keys, gap_share: float, early: int) -> MadeOrder | None:
        """Return the order of `squeeze`; None where it gets stuck."""
        from evenflow.solve.order.list_kernel import NEVER
        from evenflow.solve.order.squeeze_kernel import squeeze

        codes = self._codes()
        makespan = squeeze(keys, gap_share, early, self._stages, self._starts, *codes)
        return None if makespan >= NEVER else MadeOrder(schedule=self._schedule(codes), makespan_ns=int(makespan))

    def listed(self, keys: Keys, patience: float) -> MadeOrder:
        """Return the order of `list_schedule`."""
        from evenflow.solve.order.list_kernel import list_schedule

        codes = self._codes()
        makespan = list_schedule(keys, patience, self._stages, self._starts, *codes)
        return MadeOrder(schedule=self._schedule(codes), makespan_ns=int(makespan))

    def _codes(self) -> NDArray[np.int32]:
        return np.empty((3, self._starts[-1]), dtype=np.int32)

    def _schedule(self, codes: NDArray[np.int32]) -> Schedule:
        return self._work.schedule(codes, self._starts, name=self._name)


def _equal_times(work: Work) -> NDArray[np.int64]:
    """Return durations in units: one for a forward, an input and a weight gradient, two for a whole backward."""
    table = np.ones((work.num_stages, NUM_OPS), dtype=np.int64)
    table[:, Op.B] = 2
    return table.reshape(-1)


def _starts_of(order: Schedule, durations: Integers, messages: Integers, work: Work) -> Keys:
    """Return the starts of all actions under `order` as keys."""
    timeline = run(build_graph(order), durations, messages)
    gradients = np.argsort(work.gradient_units)
    places = np.stack((np.arange(work.num_units), gradients, gradients))
    keys = np.zeros((3, work.num_stages, work.num_units))
    kinds = KINDS[order.ops]
    keys[kinds, order.stages, places[kinds, order.units]] = timeline.start_ns
    return keys
