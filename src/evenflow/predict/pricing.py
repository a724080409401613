"""The time of a pass on one device, by what it is spent on: the one place where work becomes nanoseconds."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from evenflow.cluster.reached import SLOWED
from evenflow.cluster.topology import Topology
from evenflow.model import PassHalves
from evenflow.predict.work import Operators, Spent, Work

_EXPERTS = ("moe", "moe_act")
"""Modules whose operators are those of experts, behind the exchange of tokens."""


@dataclass(slots=True)
class Spending:
    """Nanoseconds by purpose: those that take the device's time, and those hidden under other work."""

    exposed: dict[Spent, float] = field(default_factory=dict)
    hidden: dict[Spent, float] = field(default_factory=dict)

    @property
    def total_ns(self) -> float:
        """The time that passes, without what is hidden."""
        return sum(self.exposed.values())

    def add(self, spent: Spent, exposed_ns: float, hidden_ns: float = 0.0) -> None:
        """Count more time."""
        self.exposed[spent] = self.exposed.get(spent, 0.0) + exposed_ns
        if hidden_ns:
            self.hidden[spent] = self.hidden.get(spent, 0.0) + hidden_ns

    def include(self, other: "Spending", times: float = 1.0) -> None:
        """Count all of `other` `times` times."""
        for spent, time_ns in other.exposed.items():
            self.add(spent, times * time_ns)
        for spent, time_ns in other.hidden.items():
            self.add(spent, 0.0, times * time_ns)


def priced(works: Iterable[Work], topology: Topology) -> Spending:
    """Return the time of `works` run one after the other; hidden communication slows the computation that hides it."""
    spending = Spending()
    device = topology.accelerator
    for work in works:
        if isinstance(work, Operators):
            spending.add(work.spent, work.time_ns(device))
        else:
            whole = work.time_ns(topology)
            hidden = whole * work.hidden_share
            slowdown = device.reached.pair_slowdown if work.spent is Spent.EXPERT else SLOWED
            spending.add(work.spent, whole - hidden + slowed_by_ns(hidden, slowdown), hidden)
    return spending


def halves_of(works: Iterable[Work], topology: Topology) -> PassHalves | None:
    """Return the exchanges of tokens between experts in a pass, and what is computed between them: experts or an MLP.

    There is no such value where tokens are exchanged more than once there and back.

    The router and shared experts run before tokens are exchanged, as attention does. [Megatron-LM,
    `submodule_pre_dispatch_forward`]
    """
    exchanges_ns: list[float] = []
    mlp_ns = weight_ns = 0.0
    for work in works:
        if isinstance(work, Operators):
            is_behind = work.module in _EXPERTS and len(exchanges_ns) > 0
            if not (is_behind or work.module == "mlp"):
                continue
            mlp_ns += work.time_ns(topology.accelerator)
            weight_ns += work.time_ns(topology.accelerator) if work.is_weight_gradient else 0.0
        elif work.spent is Spent.EXPERT:
            whole_ns = work.time_ns(topology)
            hidden_ns = whole_ns * work.hidden_share
            exchanges_ns.append(whole_ns - hidden_ns)
    if len(exchanges_ns) > 2:
        return None
    dispatch_ns, combine_ns = exchanges_ns or (0.0, 0.0)
    return PassHalves(
        dispatch_ns=int(dispatch_ns), mlp_ns=int(mlp_ns), combine_ns=int(combine_ns), mlp_weight_ns=int(weight_ns)
    )


def slowed_by_ns(hidden_ns: float, slowdown: float = SLOWED) -> float:
    """Return how much longer computation takes while communication of `hidden_ns` runs under it.

    Beside exchanges of tokens `slowdown` is that of the accelerator, which a calibration fits.
    """
    return hidden_ns * (1 - 1 / slowdown)


def without_ns(hidden_ns: float) -> float:
    """Return how much shorter a pass is because communication of `hidden_ns` runs under it."""
    return hidden_ns - slowed_by_ns(hidden_ns)


def under_ns(exchange_ns: float, work_ns: float) -> float:
    """Return how much of a collective can run under work of `work_ns`, slowed down by it."""
    return min(exchange_ns, work_ns * SLOWED)


def overlapped(spending: Spending, spent: Spent, exchange_ns: float) -> Spending:
    """Return a pass with a collective of `exchange_ns` under it; only what is longer than the pass shows."""
    under = under_ns(exchange_ns, spending.total_ns)
    result = Spending(dict(spending.exposed), dict(spending.hidden))
    result.add(spent, exchange_ns - under + slowed_by_ns(under), under)
    return result
