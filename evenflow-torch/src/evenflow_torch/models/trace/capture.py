"""The forward and backward pass of a module as an operator graph, traced on fake tensors: nothing is computed.

torch is imported here at the top: import this module only where a module is at hand.
"""

import functools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.accelerator_operators import AcceleratorOperators
from evenflow_torch.models.made_tensors import tensors_in
from evenflow_torch.models.trace.dtensor_adapter import FakeTensorMode, joint_graph, name_modules, tracing
from evenflow_torch.models.trace.equal_layers import (
    EqualLayers,
    Flow,
    clone_module,
    find_equal_layers,
    flows,
    mark_layers,
)
from evenflow_torch.models.trace.joint_graph import read_graph
from evenflow_torch.models.trace.operator_graph import OperatorGraph


def capture(
    module: nn.Module, example_input: Any, named_inputs: Mapping[str, Any] = MappingProxyType({})
) -> OperatorGraph:
    """Trace forward and backward of `module`, called with `example_input` and the keywords `named_inputs`.

    `example_input` is a tensor, a tuple of arguments or a dict of keywords.

    Only shapes and types matter; parameters and inputs may be on the meta device. Equal layers in a row are traced once
    (`Operator.times`). Gradients flow to parameters and to those inputs that require them. Raises InputError where the
    module cannot be traced.
    """
    args, kwargs = arguments(example_input)
    kwargs = {**kwargs, **named_inputs}
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError(
            value=type(module).__name__,
            rule=_("must have a parameter that requires a gradient"),
            place="module",
        )
    try:
        return _capture(module, args, kwargs)
    except InputError:
        raise
    except Exception as error:
        first_line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(
            value=type(module).__name__,
            rule=_("must run forward and backward on tensors without data ({reason})", reason=first_line.strip()),
            place="module",
            remedy=_("let no shape depend on values, and give an example input that fits the forward"),
        ) from error


def arguments(example_input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named arguments: of a tensor, a tuple of arguments or a dict of keywords."""
    if isinstance(example_input, dict):
        return (), example_input
    return (tuple(example_input) if isinstance(example_input, tuple | list) else (example_input,)), {}


def faked(mode: FakeTensorMode, module: nn.Module) -> Callable[[Any], Any]:
    """Return a function that replaces each tensor by one without data, always the same; other values stay.

    What is on the meta device is then where the parameters of `module` are, or on the CPU if those are on it too.
    """
    fakes: dict[int, Any] = {}
    home = next(
        (parameter.device for parameter in module.parameters() if parameter.device.type != "meta"), torch.device("cpu")
    )

    def fake(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if id(tensor) not in fakes:  # tied parameters stay tied
            device = home if tensor.device.type == "meta" else tensor.device
            with mode:
                made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
            if isinstance(tensor, nn.Parameter):
                made = nn.Parameter(made, requires_grad=tensor.requires_grad)
            else:
                made.requires_grad_(tensor.requires_grad)
            fakes[id(tensor)] = made
        return fakes[id(tensor)]

    return fake


def _capture(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OperatorGraph:
    mode = FakeTensorMode()
    fake = faked(mode, module)
    args, kwargs = tree_map(fake, (args, kwargs))
    candidates = find_equal_layers(module)
    between: tuple[Flow, ...] = ()
    if candidates:
        with mode, tracing(), torch.no_grad():
            between = flows(
                lambda kept: clone_module(module, candidates, kept, fake),
                candidates,
                lambda clone: clone(*args, **kwargs),
            )
    # Layers that hand nothing on to the next one, such as experts, are no layers in a row.
    runs = tuple(run for run, flow in zip(candidates, between, strict=True) if flow)
    between = tuple(flow for flow in between if flow)
    clone = clone_module(module, runs, dict.fromkeys(range(len(runs)), 1), fake)
    mark_layers(clone, runs)
    name_modules(clone)
    clone.forward = functools.partial(_only_loss, clone.forward)
    graph = _trace(mode, clone, args, kwargs, runs, between)
    if len(graph.from_layer_before) < 2 * sum(len(flow) for flow in between):
        # The layer that was traced is the first one, and its input needs no gradient, but those of the others do.
        for tensor in tensors_in((args, kwargs)):
            if tensor.is_floating_point():
                tensor.requires_grad_()
        graph = _trace(mode, clone, args, kwargs, runs, between)
    return graph


def _trace(
    mode: FakeTensorMode,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    runs: tuple[EqualLayers, ...],
    between: tuple[Flow, ...],
) -> OperatorGraph:
    with mode, tracing(), AcceleratorOperators(), ExitStack() as stack:
        return read_graph(joint_graph(stack, module, args, kwargs), runs, between)


def _only_loss(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a forward; return only the loss if the model returns it among other things."""
    output = forward(*args, **kwargs)
    if isinstance(output, Mapping) and isinstance(output.get("loss"), torch.Tensor):
        return output["loss"]
    return output
