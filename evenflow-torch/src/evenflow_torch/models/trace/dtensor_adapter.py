"""The only module that knows private names of torch: the tracer's, and DTensor's registries of sharding rules.

DTensor registers rules, which are read here for one mesh axis, in two forms: a table for one mesh dimension, or a
function from the strategies of the inputs on a mesh to those of the operator. Both are asked here for a mesh of one
axis; larger meshes are products of such rules. No process group is needed: the mesh is a description only.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd.descriptors import (
    BufferAOTInput,
    GradAOTOutput,
    InputMutationAOTOutput,
    ParamAOTInput,
    PlainAOTInput,
    TangentAOTInput,
)
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.compiler import _compile_session_context
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy, TupleStrategy
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder
from torch.distributed.tensor.placement_types import _MaskPartial
from torch.fx.traceback import annotate, preserve_node_meta

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.models.trace.operator_graph import AxisRule

__all__ = [
    "BufferAOTInput",
    "Call",
    "FakeTensorMode",
    "GradAOTOutput",
    "InputMutationAOTOutput",
    "NoRuleError",
    "ParamAOTInput",
    "PlainAOTInput",
    "TangentAOTInput",
    "TensorArgument",
    "joint_graph",
    "module_of",
    "name_modules",
    "registered_rules",
    "tracing",
]


def joint_graph(
    stack: ExitStack, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.fx.Graph:
    """Trace forward and backward of `module` as one graph; a ``desc`` says what each of its inputs and outputs is."""
    with preserve_node_meta():
        graph: torch.fx.Graph = aot_export_joint_with_descriptors(stack, module, args, kwargs).graph_module.graph
    graph.eliminate_dead_code()
    return graph


_MODULE = "evenflow_module"


def name_modules(module: torch.nn.Module) -> None:
    """Make every traced operator carry the path of the module it runs in; `module` is our own clone."""
    for path, part in module.named_modules():
        part.forward = functools.partial(_named, part.forward, path)


def _named(forward: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
    with annotate({_MODULE: path}):
        return forward(*args, **kwargs)


def module_of(node: torch.fx.Node) -> str:
    """Return the path of the module that a traced node runs in; for a backward node, that of its forward."""
    path: str = node.meta.get("custom", {}).get(_MODULE, "")
    return path


def tracing() -> AbstractContextManager[None]:
    """Return a context in which models know that they are traced, and look at no values."""
    context: AbstractContextManager[None] = _compile_session_context()
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorArgument:
    """A tensor among the arguments of a call."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def meta(self) -> TensorMeta:
        """Return the description that DTensor takes; rules do not depend on strides."""
        strides = torch.empty(self.shape, device="meta").stride()
        return TensorMeta(torch.Size(self.shape), strides, self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator with its arguments, tensors by shape and type; equal calls have equal rules."""

    overload: Any
    arguments: tuple[Any, ...]
    """Positional arguments; lists are tuples, so that calls can be looked up."""
    keywords: tuple[tuple[str, Any], ...]

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the operator returns."""
        return len(self.overload._schema.returns)

    def tensors(self) -> tuple[TensorArgument, ...]:
        """Return the tensors among all arguments, in order."""
        return tuple(_tensors((*self.arguments, *(value for _, value in self.keywords))))


class NoRuleError(Exception):
    """DTensor has no rule for the operator."""


def registered_rules(call: Call, axis_size: int) -> set[AxisRule]:
    """Return every rule that DTensor's registries know for `call`; raises NoRuleError."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    table = propagator.op_single_dim_strategy_funcs.get(call.overload)
    if table is not None:
        return _rules_of_table(table, call)
    function = propagator.op_strategy_funcs.get(call.overload)
    if function is not None:
        return _rules_of_function(function, call, axis_size)
    raise NoRuleError(str(call.overload))


def _rules_of_table(table: Callable[..., Any], call: Call) -> set[AxisRule]:
    def convert(argument: Any) -> Any:
        if isinstance(argument, TensorArgument):
            return argument.meta()
        return tuple(convert(item) for item in argument) if _holds_tensors(argument) else _plain(argument)

    arguments = tuple(convert(argument) for argument in call.arguments)
    keywords = {key: convert(value) for key, value in call.keywords}
    num_inputs = len(call.tensors())
    rules = set()
    for row in table(call.overload, arguments, keywords):
        num_outputs = len(row) - num_inputs
        rule = _rule(row[num_outputs:], row[:num_outputs])
        if rule is not None:
            rules.add(rule)
    return rules


def _rules_of_function(function: Callable[..., Any], call: Call, axis_size: int) -> set[AxisRule]:
    """Offer every placement of the inputs at once; where the function refuses one of them, one after the other."""
    mesh = DeviceMesh("cpu", torch.arange(axis_size, device="cpu"), _init_backend=False, _rank=0)
    most_dimensions = max((len(tensor.shape) for tensor in call.tensors()), default=0)
    offers = [Replicate(), *(Shard(dimension) for dimension in range(most_dimensions)), Partial()]
    try:
        return _rules_for_offers(function, call, mesh, offers)
    except Exception:  # noqa: BLE001  whatever a rule of torch raises for placements that it does not take
        rules = set()
        for offer in offers:
            try:
                rules |= _rules_for_offers(function, call, mesh, [offer])
            except Exception:  # noqa: BLE001
                continue
        return rules


def _rules_for_offers(
    function: Callable[..., Any], call: Call, mesh: DeviceMesh, offers: Sequence[Any]
) -> set[AxisRule]:
    def convert(argument: Any) -> Any:
        if isinstance(argument, TensorArgument):
            meta = argument.meta()
            # Some rules pair the strategies of their inputs by position, so all inputs get equally many.
            fitting = (
                Replicate() if isinstance(offer, Shard) and offer.dim >= len(argument.shape) else offer
                for offer in offers
            )
            return OpStrategy([OpSpec(DTensorSpec(mesh, (offer,), tensor_meta=meta)) for offer in fitting])
        return TupleStrategy([convert(item) for item in argument]) if _holds_tensors(argument) else _plain(argument)

    schema = OpSchema(
        call.overload,
        tuple(convert(argument) for argument in call.arguments),
        {key: convert(value) for key, value in call.keywords},
    )
    num_inputs = len(call.tensors())
    rules = set()
    for strategy in function(schema).strategies:
        outputs = strategy.output_specs
        outputs = (outputs,) if isinstance(outputs, DTensorSpec) else tuple(outputs)
        inputs = strategy.input_specs or (outputs[0],) * num_inputs
        rule = _rule([_of_axis(spec) for spec in inputs], [_of_axis(spec) for spec in outputs])
        if rule is not None:
            rules.add(rule)
    return rules


def _of_axis(spec: Any) -> Any:
    return None if spec is None else spec.placements[0]


def _rule(inputs: Sequence[Any], outputs: Sequence[Any]) -> AxisRule | None:
    """Return DTensor placements as a rule; None if one is not offered: strided splits, averages, maxima."""
    # Rows of an embedding: each device masks the indices that it has, which costs nothing, and the result is a sum.
    ins = [REPLICATE if isinstance(placement, _MaskPartial) else _number(placement) for placement in inputs]
    # The mean of equal parts is reduced and carried on like a sum.
    outs = [
        PARTIAL if isinstance(placement, Partial) and placement.reduce_op == "avg" else _number(placement)
        for placement in outputs
    ]
    if any(number is None for number in (*ins, *outs)):
        return None
    return AxisRule(
        inputs=tuple(number for number in ins if number is not None),
        outputs=tuple(number for number in outs if number is not None),
    )


def _number(placement: Any) -> int | None:
    if placement is None or isinstance(placement, Replicate):  # None: an output that was not asked for
        return REPLICATE
    if isinstance(placement, _ShardingPlaceholder) or type(placement) is Shard:
        return int(placement.dim)
    if isinstance(placement, Partial) and placement.reduce_op == "sum" and type(placement) in (Partial, _MaskPartial):
        return PARTIAL
    return None


def _plain(argument: Any) -> Any:
    return [_plain(item) for item in argument] if isinstance(argument, tuple) else argument


def _holds_tensors(argument: Any) -> bool:
    return isinstance(argument, tuple) and any(isinstance(item, TensorArgument) for item in argument)


def _tensors(arguments: Sequence[Any]) -> list[TensorArgument]:
    tensors: list[TensorArgument] = []
    for argument in arguments:
        if isinstance(argument, TensorArgument):
            tensors.append(argument)
        elif isinstance(argument, tuple):
            tensors += _tensors(argument)
    return tensors
