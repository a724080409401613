"""Reads an operator graph off a joint graph that torch traced.

torch is imported at the top: import this module only where a graph of it is at hand.
"""

import operator as python_operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from evenflow.cluster import OperatorCost, WholeTensor
from evenflow.cluster.splits.view_groups import DimensionGroups, groups_of_shapes
from evenflow_torch.models.experts.costs import is_of_experts
from evenflow_torch.models.operator_costs import operator_cost
from evenflow_torch.models.trace.dtensor_adapter import (
    BufferAOTInput,
    Call,
    GradAOTOutput,
    InputMutationAOTOutput,
    ParamAOTInput,
    PlainAOTInput,
    TangentAOTInput,
    TensorArgument,
    module_of,
)
from evenflow_torch.models.trace.equal_layers import EqualLayers, Flow, Mark, marker
from evenflow_torch.models.trace.expert_tensors import expert_outputs
from evenflow_torch.models.trace.operator_graph import Operator, OperatorGraph, Role, Value
from evenflow_torch.models.trace.views import dimension_groups


def read_graph(graph: torch.fx.Graph, runs: tuple[EqualLayers, ...], flows: tuple[Flow, ...]) -> OperatorGraph:
    """Read the operators of `graph`, which holds one layer of each run; `flows` tell what a layer hands to the next."""
    reader = _GraphReader()
    for node in graph.nodes:
        reader.add(node)
    operators = _with_times(tuple(reader.operators), reader.marks, runs)
    result = OperatorGraph(
        operators=operators,
        outputs=tuple(reader.outputs),
        gradients=tuple(reader.gradients),
        from_layer_before=_from_layer_before(reader.marks, flows),
    )
    return replace(result, operators=_with_saved(result))


@dataclass(kw_only=True)
class _GraphReader:
    operators: list[Operator] = field(default_factory=list)
    values: dict[torch.fx.Node, Value] = field(default_factory=dict)
    marks: dict[Mark, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    outputs: list[Value] = field(default_factory=list)
    gradients: list[tuple[int, Value]] = field(default_factory=list)

    def add(self, node: torch.fx.Node) -> None:
        if node.op == "output":
            self._outputs(node)
        elif node.op == "call_function" and node.target is python_operator.getitem:
            source = node.args[0]
            assert isinstance(source, torch.fx.Node)
            self.values[node] = Value(operator=self.values[source].operator, output=int(node.args[1]))
        elif node.op == "call_function":
            self._call(node)
        elif isinstance(node.meta.get("val"), torch.Tensor):
            self._given(node)

    def _append(self, node: torch.fx.Node, operator: Operator) -> None:
        self.values[node] = Value(operator=len(self.operators))
        is_backward = node.meta.get("partitioner_tag") == "is_backward"
        self.operators.append(replace(operator, backward=is_backward, module=module_of(node)))

    def _given(self, node: torch.fx.Node) -> None:
        description = node.meta.get("desc")
        role, name = Role.INPUT, node.name
        if isinstance(description, ParamAOTInput):
            role, name = Role.PARAMETER, description.target
            self.parameters[name] = len(self.operators)
        elif isinstance(description, BufferAOTInput):
            role, name = Role.BUFFER, description.target
        elif isinstance(description, TangentAOTInput):
            role, name = Role.TANGENT, f"gradient of output {getattr(description.output, 'idx', '')}".rstrip()
        elif isinstance(description, PlainAOTInput):
            name = f"input {description.idx}"
        elif node.op == "get_attr":
            role = Role.BUFFER
        self._append(node, Operator(name=name, role=role, outputs=_outputs(node)))

    def _call(self, node: torch.fx.Node) -> None:
        sources = [source for source in _nodes((*node.args, *node.kwargs.values())) if source in self.values]
        inputs = tuple(self.values[source] for source in sources)
        outputs = _outputs(node)
        target = str(node.target)
        if node.target is marker():
            self.marks[Mark.parse(str(node.args[1]))] = len(self.operators)
            self._same(node, inputs, outputs[0])
            return
        if node.target is torch.ops.aten.detach.default:  # the same tensor, also where it is described by other shapes
            self._same(node, inputs, self.operators[inputs[0].operator].outputs[inputs[0].output])
            return
        call = Call(
            overload=node.target,
            arguments=tuple(_argument(argument) for argument in node.args),
            keywords=tuple((key, _argument(argument)) for key, argument in node.kwargs.items()),
        )
        is_view = _is_view(node.target) and len(inputs) == len(outputs) == 1
        operator = Operator(
            name=node.name,
            role=Role.VIEW if is_view else Role.COMPUTE,
            inputs=inputs,
            outputs=outputs,
            call=call,
            target=target,
            view=_view(node.target, call, outputs[0]) if is_view else None,
            cost=_cost(node, sources),
        )
        self._append(node, operator)

    def _same(self, node: torch.fx.Node, inputs: tuple[Value, ...], tensor: WholeTensor) -> None:
        identity = groups_of_shapes(tensor.shape, tensor.shape)
        operator = Operator(
            name=node.name,
            role=Role.VIEW,
            inputs=inputs,
            outputs=(tensor,),
            target=str(node.target),
            view=identity,
        )
        self._append(node, operator)

    def _outputs(self, node: torch.fx.Node) -> None:
        results = node.args[0]
        assert isinstance(results, Sequence)
        buffers: list[Value] = []
        for description, result in zip(node.meta["desc"], results, strict=True):
            if not isinstance(result, torch.fx.Node) or result not in self.values:
                continue
            if isinstance(description, GradAOTOutput) and isinstance(description.grad_of, ParamAOTInput):
                self.gradients.append((self.parameters[description.grad_of.target], self.values[result]))
            else:
                kept = buffers if isinstance(description, InputMutationAOTOutput) else self.outputs
                kept.append(self.values[result])
        self.outputs += buffers  # the first output is what goes to the next layer


def _values(node: torch.fx.Node) -> tuple[Any, ...]:
    value = node.meta.get("val")
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _outputs(node: torch.fx.Node) -> tuple[WholeTensor, ...]:
    if is_of_experts(node.target):
        return expert_outputs(node.target, _met(node.args), _values(node))
    return tuple(
        WholeTensor(shape=tuple(int(size) for size in value.shape), item_bytes=value.dtype.itemsize)
        if isinstance(value, torch.Tensor)
        else WholeTensor(shape=(), item_bytes=0)  # an output that was not asked for
        for value in _values(node)
    )


def _nodes(arguments: Iterable[Any]) -> list[torch.fx.Node]:
    nodes: list[torch.fx.Node] = []
    for argument in arguments:
        if isinstance(argument, torch.fx.Node):
            nodes.append(argument)
        elif isinstance(argument, tuple | list):
            nodes += _nodes(argument)
    return nodes


def _argument(argument: Any) -> Any:
    if isinstance(argument, torch.fx.Node):
        value = argument.meta.get("val")
        assert isinstance(value, torch.Tensor)
        return TensorArgument(shape=tuple(int(size) for size in value.shape), dtype=value.dtype)
    if isinstance(argument, tuple | list):
        return tuple(_argument(item) for item in argument)
    return argument


def _is_view(target: Any) -> bool:
    aten = torch.ops.aten
    return isinstance(target, torch._ops.OpOverload) and (
        target.is_view or target in (aten._unsafe_view.default, aten.detach.default)
    )


def _view(target: Any, call: Call, result: WholeTensor) -> DimensionGroups | None:
    return dimension_groups(target, call.arguments, call.tensors()[0].shape, result.shape)


def _cost(node: torch.fx.Node, sources: Sequence[torch.fx.Node]) -> OperatorCost:
    inputs = [source.meta.get("val") for source in sources]
    return operator_cost(node.target, _met(node.args), _met(node.kwargs), inputs=inputs, outputs=_values(node))


def _met(arguments: Any) -> Any:
    """Return arguments with every node replaced by its tensor without data."""
    return torch.fx.node.map_arg(arguments, lambda source: source.meta["val"])


def _from_layer_before(marks: dict[Mark, int], flows: tuple[Flow, ...]) -> dict[int, Value]:
    """Return the values that a run's layers take from the layer before, or, for gradients, from the one after."""
    links = {}
    for run, flow in enumerate(flows):
        for leaving, entering in flow:
            out_mark = Mark(run=run, entering=False, position=leaving)
            in_mark = Mark(run=run, entering=True, position=entering)
            if out_mark in marks and in_mark in marks:
                links[marks[in_mark]] = Value(operator=marks[out_mark])
            out_mark, in_mark = replace(out_mark, backward=True), replace(in_mark, backward=True)
            if out_mark in marks and in_mark in marks:
                links[marks[out_mark]] = Value(operator=marks[in_mark])
    return links


_OUTSIDE = -1


def _with_times(
    operators: tuple[Operator, ...], marks: dict[Mark, int], runs: tuple[EqualLayers, ...]
) -> tuple[Operator, ...]:
    """Return the operators with the number of equal layers that run each of them.

    A layer runs, in the forward, what follows from a tensor that enters it or from its parameters, until the tensors
    that leave it; in the backward, what follows from the gradient that comes in, until the one that goes out.
    """
    opens = {index: mark.run for mark, index in marks.items() if mark.entering != mark.backward}
    closes = {index for mark, index in marks.items() if mark.entering == mark.backward}
    prefixes = [(run, f"{layers.path}.{layers.first}.".removeprefix(".")) for run, layers in enumerate(runs)]
    inside: dict[int, int] = {}
    for index, operator in enumerate(operators):
        if operator.role in (Role.PARAMETER, Role.BUFFER):
            inside.update((index, run) for run, prefix in prefixes if operator.name.startswith(prefix))
        elif index in opens:
            inside[index] = opens[index]
        elif index not in closes:
            origins = [inside[value.operator] for value in operator.inputs if value.operator in inside]
            if origins:
                inside[index] = max(origins)
        else:
            inside[index] = _OUTSIDE  # and so is what follows from it
    return tuple(
        replace(operator, times=runs[inside[index]].count, name=_name_of_all(operator.name, runs[inside[index]]))
        if inside.get(index, _OUTSIDE) != _OUTSIDE
        else operator
        for index, operator in enumerate(operators)
    )


def _name_of_all(name: str, run: EqualLayers) -> str:
    """Return one name for a parameter of all layers of a run, such as ``layers.0-31.mlp.weight``."""
    prefix = f"{run.path}.{run.first}.".removeprefix(".")
    if not name.startswith(prefix):
        return name
    last = run.first + run.count - 1
    return f"{run.path}.{run.first}-{last}.".removeprefix(".") + name.removeprefix(prefix)


def _with_saved(graph: OperatorGraph) -> tuple[Operator, ...]:
    """Return the operators with the forward's outputs that the backward reads marked as saved."""
    saved: dict[int, set[int]] = {}
    for operator in graph.operators:
        if not operator.backward or operator.role is Role.VIEW:
            continue
        for value in operator.inputs:
            for route in graph.routes(value, operator.times):
                source = graph.operators[route.source.operator]
                if not source.backward and source.role in (Role.COMPUTE, Role.INPUT):
                    saved.setdefault(route.source.operator, set()).add(route.source.output)
    return tuple(
        replace(operator, saved=tuple(sorted(saved.get(index, ())))) for index, operator in enumerate(graph.operators)
    )
