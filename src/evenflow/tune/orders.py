"""Orders of work that many configurations have: each is made once, with its graph and what its ranks hold at once."""

from collections import OrderedDict
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Sizes
from evenflow.schedule import Schedule, make_schedule
from evenflow.simulate import Graph, build_graph, live_vectors

_MOST_ACTIONS = 4_000_000
"""Actions of all orders that are kept: about 150 MB."""
_Key = tuple[str, Sizes, int | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedOrder:
    """An order of work with what is computed of it once."""

    schedule: Schedule
    graph: Graph
    live: tuple[NDArray[np.int64], ...]
    """Maximal live vectors of each rank."""

    @cached_property
    def graph_in_turn(self) -> Graph:
        """The graph with one action after the other, where it has pairs."""
        return build_graph(self.schedule.in_turn()) if self.schedule.has_pairs else self.graph


@dataclass(kw_only=True)
class Orders:
    """The orders used last."""

    _kept: OrderedDict[_Key, PreparedOrder] = field(default_factory=OrderedDict)
    _num_actions: int = 0

    def of(self, family: str, sizes: Sizes, group_size: int | None = None) -> PreparedOrder:
        """Return the order of a family; raises InputError where it has none of these sizes."""
        key = family, sizes, group_size
        order = self._kept.get(key)
        if order is not None:
            self._kept.move_to_end(key)
            return order
        schedule = make_schedule(family, **asdict(sizes), group_size=group_size)
        live = tuple(live_vectors(schedule, rank) for rank in range(schedule.num_ranks))
        order = self._kept[key] = PreparedOrder(schedule=schedule, graph=build_graph(schedule), live=live)
        self._num_actions += schedule.num_actions
        while self._num_actions > _MOST_ACTIONS and len(self._kept) > 1:
            _key, old = self._kept.popitem(last=False)
            self._num_actions -= old.schedule.num_actions
        return order
