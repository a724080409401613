"""The layers of a model as operator graphs: every kind of layer is traced once, on tensors without data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from evenflow.cluster import WholeTensor
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.parts import Part
from evenflow_torch.models.trace.dropping import Dropping, dropping
from evenflow_torch.models.trace.operator_graph import OperatorGraph, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedLayers:
    """The traced layers of a model: an operator graph for every kind, and the order of kinds."""

    order: tuple[int, ...]
    graphs: tuple[OperatorGraph, ...]
    longest: tuple[int, ...]
    """Layers in the longest run of each kind."""

    dropping: tuple[Mapping[str, Dropping], ...]
    """For each kind of layer what its recompute kinds drop, beside none and full."""

    @property
    def handed_over(self) -> tuple[WholeTensor, ...]:
        """The tensor that comes into a layer of each kind."""
        return tuple(_first_input(graph) for graph in self.graphs)


def capture_layers(kinds: Sequence[Part], order: Sequence[int]) -> CapturedLayers:
    """Trace every kind of layer once; `order` is the kind of every layer.

    Raises InputError where a kind cannot be traced, and where layers that follow one another do not take what they
    give.
    """
    for kind in order:
        if not 0 <= kind < len(kinds):
            raise InputError(
                value=kind, rule=_("must be kinds of layers, from 0 to {last}", last=len(kinds) - 1), place="order"
            )
    from evenflow_torch.models.checkpointing import modules_of_kinds

    longest = tuple(
        max((len(list(run)) for other, run in groupby(order) if other == kind), default=1) for kind in range(len(kinds))
    )
    graphs = tuple(_capture(kind, longest[index]) for index, kind in enumerate(kinds))
    _check_order(kinds, order, graphs)
    return CapturedLayers(
        order=tuple(order),
        graphs=graphs,
        longest=longest,
        dropping=tuple(
            {kind: dropping(graph, names) for kind, names in modules_of_kinds(part.module).items()}
            for part, graph in zip(kinds, graphs, strict=True)
        ),
    )


def _capture(kind: Part, longest: int) -> OperatorGraph:
    from evenflow_torch.models.trace.capture import capture
    from evenflow_torch.models.trace.layer_stack import FIRST, STACKED, differentiable, stack

    example = differentiable(kind.inputs)
    if longest == 1:
        return capture(kind.module, example, kind.named_inputs)
    graph = capture(stack(kind.module), example, kind.named_inputs)
    if not graph.from_layer_before:
        raise InputError(
            rule=_("must take what the layer before returns as its first argument, since layers of its kind follow it"),
            place=kind.name,
        )
    operators = tuple(
        replace(
            operator,
            name=operator.name.removeprefix(STACKED),
            module=operator.module.removeprefix(FIRST).removeprefix("."),
        )
        for operator in graph.operators
    )
    return replace(graph, operators=operators)


def _check_order(kinds: Sequence[Part], order: Sequence[int], graphs: Sequence[OperatorGraph]) -> None:
    for before, after in pairwise(order):
        value = graphs[before].outputs[0]
        result = graphs[before].operators[value.operator].outputs[value.output]
        taken = _first_input(graphs[after])
        if result != taken:
            raise InputError(
                value=f"{list(result.shape)} of {result.item_bytes} bytes each",
                rule=_(
                    "must be what {name} takes, {shape} of {item_bytes} bytes each",
                    name=kinds[after].name,
                    shape=list(taken.shape),
                    item_bytes=taken.item_bytes,
                ),
                place=_("the result of {name}", name=kinds[before].name),
            )


def _first_input(graph: OperatorGraph) -> WholeTensor:
    return next(operator.outputs[0] for operator in graph.operators if operator.role is Role.INPUT)
