"""Forward and backward pass of a module as operators and the tensors between them; no torch in here."""

import enum
from collections.abc import Hashable
from dataclasses import dataclass, replace

from evenflow.cluster import REPLICATE, Collective, OperatorCost, Placement, RowExchange, WholeTensor
from evenflow.cluster.splits.view_groups import DimensionGroups

ATTENTION = "scaled_dot_product"
"""A part of the name of every operator of attention."""
_NOTHING = OperatorCost(launches=0)


class Role(enum.Enum):
    """The role of an operator in the graph: parameter, input, view, computation and so on."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    INPUT = "input"
    TANGENT = "gradient of an output"
    COMPUTE = "computation"
    VIEW = "view"
    """Free, with one tensor in and one out: never a choice of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One output of an operator."""

    operator: int
    output: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InnerExchange:
    """A collective that an operator runs itself, as tokens go to their experts, or keys and values round a ring."""

    collective: Collective
    tensor: int
    """The tensor whose size it has, among inputs and then outputs: as the other axes split it, whole on this one."""
    share: float = 1.0
    """How many times the bytes of that tensor are exchanged."""
    hides: bool = False
    """Whether it runs under the operator's own computation: under that of all parts but the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRule:
    """One way to run an operator on the devices of one mesh axis: a placement for each tensor in and out of it."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    exchanges: tuple[InnerExchange, ...] = ()
    load: float = 1.0
    """What the fullest device keeps, as a multiple of an equal share: loads of experts differ."""
    work: float = 1.0
    """What the busiest device computes, as a multiple of an equal share, as in causal attention by rows."""
    rows: RowExchange = RowExchange.GATHERED
    """How attention split by rows of the query gets keys and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator of the graph; its `inputs` are results of earlier operators."""

    name: str
    role: Role
    inputs: tuple[Value, ...] = ()
    outputs: tuple[WholeTensor, ...] = ()
    call: Hashable = None
    """The key that rules are looked up by; equal calls have equal rules."""
    target: str = ""
    """The name of the operator in torch."""
    view: DimensionGroups | None = None
    """What a view does with dimensions; None for other operators, and for views that only their rules know."""
    cost: OperatorCost = _NOTHING
    """The cost of the whole computation; `OperatorCost.tensor_bytes` in the order of `inputs` and `outputs`."""
    backward: bool = False
    saved: tuple[int, ...] = ()
    """Outputs that the forward keeps for the backward."""
    times: int = 1
    """Number of equal layers that run it; they all get one and the same choice."""
    kept_split: int | None = None
    """The one dimension of a parameter that must be split where it is kept, or REPLICATE; None: any."""
    module: str = ""
    """Path of the innermost module whose forward it is part of, or, in the backward, belongs to."""

    def keeps(self, placement: Placement) -> bool:
        """Tell whether a parameter may be kept on several devices in this placement."""
        if self.kept_split is None:
            return True
        split = {split for split in placement if split != REPLICATE}
        return split == (set() if self.kept_split == REPLICATE else {self.kept_split})


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way along which a tensor reaches an operator: where it was made, and the views in between, first one first."""

    source: Value
    views: tuple[int, ...]
    times: int
    """Uses in one pass of the module."""
    from_layer_before: bool = False
    """True for the way between two layers of a run of equal ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """A graph of operators, listed in an order in which they can run."""

    operators: tuple[Operator, ...]
    outputs: tuple[Value, ...]
    """Results of the forward and gradients of inputs: others use them, so none of them may stay a partial sum."""
    gradients: tuple[tuple[int, Value], ...]
    """A parameter's index and its gradient."""
    from_layer_before: dict[int, Value]
    """The value that the layer before hands over, for each view through which a run of equal layers is entered. The
    first layer takes what the view's input says."""

    def inputs(self, operator: Operator) -> tuple[WholeTensor, ...]:
        """Return the tensors that `operator` reads."""
        return tuple(self.operators[value.operator].outputs[value.output] for value in operator.inputs)

    def with_layers(self, count: int) -> "OperatorGraph":
        """Return the graph with `count` equal layers in its run of equal layers, if it has one."""
        times = (count if operator.times > 1 else 1 for operator in self.operators)
        operators = (replace(operator, times=n) for operator, n in zip(self.operators, times, strict=True))
        return replace(self, operators=tuple(operators))

    def routes(self, value: Value, times: int) -> tuple[Route, ...]:
        """Return the routes along which `value` reaches an operator that runs `times` times."""
        views: list[int] = []
        while self.operators[value.operator].role is Role.VIEW:
            view = value.operator
            views.append(view)
            value = self.operators[view].inputs[0]
            if view in self.from_layer_before and times > 1:
                behind = tuple(reversed(views))
                later = self.routes(self.from_layer_before[view], 1)[0]
                first = self.routes(value, 1)[0]
                return (
                    Route(source=first.source, views=(*first.views, *behind), times=1),
                    Route(source=later.source, views=(*later.views, *behind), times=times - 1, from_layer_before=True),
                )
        return (Route(source=value, views=tuple(reversed(views)), times=times),)
