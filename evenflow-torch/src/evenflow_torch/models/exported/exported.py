"""The forward of any module as one graph of operators, traced by torch.export on tensors without data.

torch is imported at the top: import this module only where a module is at hand.
"""

import dataclasses
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_map

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.made_tensors import tensors_in
from evenflow_torch.models.trace.capture import arguments, faked
from evenflow_torch.models.trace.dtensor_adapter import FakeTensorMode
from evenflow_torch.models.trace.equal_layers import clone_module


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A traced forward: each node's value, without data, is in ``meta["val"]``; operators may write in place."""

    operators: tuple[fx.Node, ...]
    """Operators in the order of the forward."""
    parameters: Mapping[fx.Node, tuple[str, ...]]
    """All names of each parameter: a tied one has several."""
    tensors: Mapping[fx.Node, torch.Tensor]
    """The model's own parameters, buffers and constants."""
    buffers: Mapping[fx.Node, str]
    """Names of buffers."""
    inputs: tuple[fx.Node, ...]
    """The tensors among the arguments, in order."""
    keywords: tuple[str, ...]
    """Arguments by keyword, in the order of the inputs."""
    result: fx.Node
    """The value that the model is trained on."""

    def input_tensors(self, batch: Any) -> dict[str, torch.Tensor]:
        """Return the tensors of a batch of the same form by the names of the inputs."""
        args, kwargs = arguments(batch)
        named = {name: kwargs[name] for name in self.keywords if name in kwargs}
        tensors = tensors_in((args, named))
        if set(kwargs) != set(self.keywords) or len(tensors) != len(self.inputs):
            raise InputError(
                value=", ".join(kwargs) or len(tensors),
                rule=_(
                    "must have the form of the example: {names}", names=", ".join(node.name for node in self.inputs)
                ),
                place="batch",
            )
        return {node.name: tensor for node, tensor in zip(self.inputs, tensors, strict=True)}


def export_forward(model: nn.Module, example_batch: Any) -> Exported:
    """Trace `model` called with a tensor, a tuple of arguments or a dict of keywords.

    Of several results the loss is taken, where one has that name, else the first tensor with a gradient. Parameters
    and the batch may be on the meta device. Raises InputError, with torch's reason, for a model that does not export.
    """
    fake = faked(FakeTensorMode(), model)
    args, kwargs = tree_map(fake, arguments(example_batch))
    clone = clone_module(model, (), {}, fake)
    clone.forward = _one_result(clone.forward)
    try:
        with _quietly():
            program = torch.export.export(clone, args, kwargs, strict=False)
    except InputError:
        raise
    except Exception as error:
        first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise _refusal(model, first_line.strip()[:300]) from error
    for graph in (module.graph for module in program.graph_module.modules() if isinstance(module, fx.GraphModule)):
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten._assert_tensor_metadata.default):
            graph.erase_node(node)  # the tracer's notes of types, no work
    for node in program.graph.nodes:
        value = node.meta.get("val")
        sizes = [size for tensor in _tensors(value) for size in tensor.shape]
        if any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in (value, *sizes)):
            raise _refusal(model, _("shapes or numbers depend on what {target} finds in a tensor", target=node.target))
    return _read(model, program)


@contextmanager
def _quietly() -> Iterator[None]:
    """Return a context that hides the traces and graphs torch prints besides raising an error."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with redirect_stderr(io.StringIO()), warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def _refusal(model: nn.Module, reason: str) -> InputError:
    return InputError(
        value=type(model).__name__,
        rule=_("must export with torch.export ({reason})", reason=reason),
        place="model",
        remedy=_(
            "let neither shapes nor control flow depend on values of tensors and give a batch that fits the "
            "forward, or give the model's layers in order, as an nn.Sequential or a list"
        ),
    )


def _one_result(forward: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    @functools.wraps(forward)
    def only(*args: Any, **kwargs: Any) -> torch.Tensor:
        output = forward(*args, **kwargs)
        loss = output.get("loss") if isinstance(output, Mapping) else None
        for tensor in _tensors(output if loss is None else loss):
            if tensor.requires_grad and not tensor.is_leaf:
                return tensor
        raise InputError(
            value=type(output).__name__,
            rule=_("must return a tensor with a gradient for its parameters, alone or among other things"),
            place="model",
        )

    return only


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, tuple | list):
        for value in output:
            yield from _tensors(value)
    elif dataclasses.is_dataclass(output):
        for field in dataclasses.fields(output):
            yield from _tensors(getattr(output, field.name))


def _read(model: nn.Module, program: Any) -> Exported:
    signature, nodes = program.graph_signature, list(program.graph.nodes)
    named = dict(model.named_parameters(remove_duplicate=False))
    names: dict[int, tuple[str, ...]] = {}
    for name, parameter in named.items():
        names[id(parameter)] = (*names.get(id(parameter), ()), name)
    buffers = dict(model.named_buffers(remove_duplicate=False))
    parameters, tensors, named_buffers, inputs = {}, {}, {}, []
    for node in nodes:
        if node.op != "placeholder":
            continue
        if node.name in signature.inputs_to_parameters:
            tensors[node] = named[signature.inputs_to_parameters[node.name]]
            parameters[node] = names[id(tensors[node])]
        elif node.name in signature.inputs_to_buffers:
            named_buffers[node] = signature.inputs_to_buffers[node.name]
            tensors[node] = buffers[named_buffers[node]]
        elif node.name in signature.inputs_to_lifted_tensor_constants:
            tensors[node] = program.constants[signature.inputs_to_lifted_tensor_constants[node.name]]
        elif isinstance(node.meta.get("val"), torch.Tensor):
            inputs.append(node)
    results = {node.name: node for node in nodes}
    return Exported(
        operators=tuple(node for node in nodes if node.op in ("call_function", "get_attr")),
        parameters=parameters,
        tensors=tensors,
        buffers=named_buffers,
        inputs=tuple(inputs),
        keywords=tuple(program.call_spec.in_spec.child(1).context),
        result=results[signature.user_outputs[0]],
    )
