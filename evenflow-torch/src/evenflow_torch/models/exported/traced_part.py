"""A stretch of a model as a module: a graph for each shape of its inputs, and others in evaluation.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.exported.crossings import region_of
from evenflow_torch.models.exported.inner_calls import calls_in, take_out
from evenflow_torch.models.exported.segments import Segment, SegmentDraft

_LINEAR = torch.ops.aten.linear.default
_AS_WRITTEN: dict[Any, Any] = {
    torch.ops.aten.scaled_dot_product_attention.default: functional.scaled_dot_product_attention,
    torch.ops.aten.view.default: torch.Tensor.view,
    torch.ops.aten.reshape.default: torch.reshape,
    torch.ops.aten.conv1d.default: functional.conv1d,
    torch.ops.aten.conv2d.default: functional.conv2d,
    torch.ops.aten.conv3d.default: functional.conv3d,
}
"""Operators as a forward calls them, which stages on several devices compute in ways of their own."""
_Key = tuple[Any, ...]


class _Graphs(dict[_Key, tuple[fx.Graph, tuple[str, ...]]]):
    """Graphs with the names of their inputs by keyword; copies of a part share them."""

    def __deepcopy__(self, _memo: Any) -> "_Graphs":
        return self


class TracedPart(nn.Module):  # torch is not checked
    """Runs the graph for the shapes of what it is given, in its mode.

    Parameters and buffers have their full names in the model.
    """

    def __init__(self) -> None:
        super().__init__()
        self._graphs = _Graphs()
        self._taken_out: list[str] = []
        self.path = ""
        """The module of the model that runs here, with nothing beside it; empty where there is none."""

    def forward(self, *args: Any, **named: Any) -> Any:
        """Return what crosses out of the part, a tuple where that is several tensors, or the model's result."""
        key = (self.training, *map(_shape, args), *(_shape(named[name]) for name in sorted(named)))
        if key not in self._graphs:
            raise InputError(
                value=[list(shape) for shape in key[1:]],
                rule=_("must have a shape that the model was traced with"),
                place=_("inputs of a part of the model"),
            )
        graph, names = self._graphs[key]
        return fx.Interpreter(self, graph=graph).run(*args, *(named[name] for name in names))

    def add(
        self,
        draft: SegmentDraft,
        names: Sequence[str],
        tensors: Mapping[fx.Node, torch.Tensor],
        persistent: Collection[str] | None = None,
        *,
        device: torch.device,
        training: bool,
    ) -> None:
        """Add a graph, whose tensors have these names, "" for constants.

        The first time they become the part's own; of its buffers those that are `persistent` are in the state_dict.
        Without `persistent` it has them already.

        Raises:
            InputError: the graph needs a parameter that the part does not have.
        """
        variant = len(self._graphs)
        for place, (source, node) in enumerate(draft.tensors.items()):
            name = names[place] or f"_constants_{variant}.{place}"
            node.target = name
            if not _has(self, name):
                if persistent is None and names[place]:
                    raise InputError(
                        value=name,
                        rule=_("must be used in training to be used in evaluation"),
                        place="model",
                        remedy=_("give the model as modules in order, which run as they are"),
                    )
                _register(self, name, tensors[source], persistent=name in (persistent or ()))
        for number, node in enumerate(draft.graph.nodes):
            region = region_of(node)
            if region is not None:
                node.target = f"_region_{variant}_{number}"
                _as_written(region.graph, device)
                self.add_module(node.target, Segment(region.graph, tensors={}))
        _as_written(draft.graph, device)
        _call_linears(self, draft.graph)
        for path in self._taken_out:
            take_out(self, draft.graph, path)
        first, others = draft.inputs[: draft.num_entering], draft.inputs[draft.num_entering :]
        by_name = sorted((node.name, node) for node in others)
        key = (
            training,
            *(_shape(node.meta["val"]) for node in first),
            *(_shape(node.meta["val"]) for _name, node in by_name),
        )
        self._graphs[key] = draft.graph, draft.named

    def inner_names(self) -> list[str]:
        """Return the names of the modules that are called inside, in the module at `path`; "" is that one."""
        graph, _named = next(iter(self._graphs.values()))
        inside = f"{self.path}." if self.path else ""
        return [
            "",
            *(path.removeprefix(inside) for path in calls_in(graph) if path.startswith(inside) and path != inside),
        ]

    def inner_module(self, name: str) -> nn.Module:
        """Return the module of a name of `inner_names`, which from now on runs by itself."""
        path = f"{self.path}.{name}" if self.path else name
        self._taken_out.append(path)
        for graph, _named in self._graphs.values():
            take_out(self, graph, path)
        return self.get_submodule(path)

    def add_unused(self, model: nn.Module, parts: Sequence["TracedPart"]) -> None:
        """Add what the model has in its state_dict and no part uses, so that checkpoints are whole."""
        used = {name for part in parts for name in part.state_dict(keep_vars=True)}
        for name, tensor in model.state_dict(keep_vars=True).items():
            if name not in used and isinstance(tensor, torch.Tensor):
                _register(self, name, tensor, persistent=True)


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def _has(module: nn.Module, name: str) -> bool:
    *path, last = name.split(".")
    inside: nn.Module | None = module
    for step in path:
        inside = None if inside is None else inside._modules.get(step)
    return inside is not None and (last in inside._parameters or last in inside._buffers)


def _register(module: nn.Module, name: str, tensor: torch.Tensor, *, persistent: bool) -> None:
    *path, last = name.split(".")
    for step in path:
        if step not in module._modules:
            module.add_module(step, nn.Module())
        inside = module._modules[step]
        assert inside is not None
        module = inside
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(last, tensor)
    else:
        module.register_buffer(last, tensor, persistent=persistent)


def _as_written(graph: fx.Graph, device: torch.device) -> None:
    """Let operators be called as in a forward, and those that make tensors on a device make them on this one."""
    for node in graph.nodes:
        node.args = tree_map_only(torch.device, lambda _old: device, node.args)
        node.kwargs = tree_map_only(torch.device, lambda _old: device, node.kwargs)
        node.target = _AS_WRITTEN.get(node.target, node.target)


def _call_linears(part: TracedPart, graph: fx.Graph) -> None:
    """Let products with the weight of a linear layer be calls of a module, where the weight is in no other operator."""
    for node in graph.find_nodes(op="call_function", target=_LINEAR):
        hidden, weight, bias = (*node.args, None)[:3]
        path, _dot, last = str(weight.target).rpartition(".")
        of_bias = {None, f"{path}.bias"}
        is_layer = (
            weight.op == "get_attr"
            and path != ""
            and last == "weight"
            and (None if bias is None else bias.target) in of_bias
            and all(user.target in (_LINEAR, path) for user in weight.users)
            and hidden is not weight
        )
        place = part.get_submodule(path) if is_layer else None
        if place is None or set(place._parameters) - {"weight", "bias"} or place._buffers or place._modules:
            continue
        if not isinstance(place, nn.Linear):
            layer = nn.Linear(1, 1, bias=False, device="meta")
            layer.out_features, layer.in_features = weight.meta["val"].shape
            layer.weight, layer.bias = place.weight, place._parameters.get("bias")
            parent, _dot, name = path.rpartition(".")
            part.get_submodule(parent).add_module(name, layer)
        with graph.inserting_before(node):
            called = graph.create_node("call_module", path, (hidden,))
        called.meta = dict(node.meta)
        node.replace_all_uses_with(called)
        graph.erase_node(node)
    for node in graph.find_nodes(op="get_attr"):
        if not node.users:
            graph.erase_node(node)
