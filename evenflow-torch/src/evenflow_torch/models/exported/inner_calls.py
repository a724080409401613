"""Calls of modules inside a traced graph as modules again, so that they can be computed again by themselves.

    graph            norm: mul, rsqrt, mul    product    norm: ...
    with the call    call of blocks.0.norm    product    call of ...

torch is imported at the top: import this module only where a module is at hand.
"""

import operator
from collections.abc import Sequence
from typing import Any

from torch import fx, nn

from evenflow_torch.models.exported.crossings import region_of


class InnerCalls(nn.Module):  # torch is not checked
    """A module of a model as its calls were traced: a graph for each of them."""

    def __init__(self, place: nn.Module) -> None:
        """`place` holds its parameters, buffers and modules."""
        super().__init__()
        self._parameters, self._buffers, self._modules = place._parameters, place._buffers, place._modules
        self._non_persistent_buffers_set = place._non_persistent_buffers_set
        self.graphs: list[fx.Graph] = []

    def forward(self, number: int, *args: Any) -> Any:
        """Return what the call of this number gives."""
        return fx.Interpreter(self, graph=self.graphs[number]).run(*args)


def calls_in(graph: fx.Graph) -> list[str]:
    """Return the paths of the modules that a graph calls, in order."""
    return list(dict.fromkeys(path.partition("@")[0] for node in graph.nodes for path in _stack(node)))


def take_out(part: nn.Module, graph: fx.Graph, path: str) -> None:
    """Let a graph of `part` call the module at `path`, once for each of its calls in the model."""
    groups: dict[str, list[fx.Node]] = {}
    for node in graph.nodes:
        call = next((called for called in _stack(node) if called.partition("@")[0] == path), None)
        if call is not None:
            groups.setdefault(call, []).append(node)
    for nodes in groups.values():
        if [node.target for node in nodes] != [path]:  # else it is a call already
            _take_out(part, graph, path, nodes)


def _take_out(part: nn.Module, graph: fx.Graph, path: str, nodes: Sequence[fx.Node]) -> None:
    inner = fx.Graph(owning_module=graph.owning_module)
    inside = set(nodes)
    copies: dict[fx.Node, fx.Node] = {}
    inputs: list[fx.Node] = []
    sources = (source for node in nodes for source in node.all_input_nodes)
    for node in dict.fromkeys(sources):
        if node in inside:
            continue
        if node.op == "get_attr" and str(node.target).startswith(f"{path}."):
            copies[node] = inner.create_node("get_attr", str(node.target).removeprefix(f"{path}."))
        else:
            copies[node] = inner.placeholder(node.name)
            inputs.append(node)
        copies[node].meta = dict(node.meta)
    place = _module_at(part, path)
    for node in nodes:
        copies[node] = inner.node_copy(node, copies.__getitem__)
        if node.op == "call_module":
            copies[node].target = str(node.target).removeprefix(f"{path}.")
        if region_of(node) is not None:
            place.add_module(str(node.target), part.get_submodule(str(node.target)))
    results = [node for node in nodes if any(user not in inside for user in node.users)]
    inner.output(copies[results[0]] if len(results) == 1 else tuple(copies[node] for node in results))
    with graph.inserting_after(nodes[-1]):
        called = graph.create_node("call_module", path, (len(place.graphs), *inputs))
    place.graphs.append(inner)
    for number, node in enumerate(results):
        value = called
        if len(results) > 1:
            with graph.inserting_after(called):
                value = graph.create_node("call_function", operator.getitem, (called, number))
        value.meta = dict(node.meta)
        node.replace_all_uses_with(value, delete_user_cb=lambda user: user not in inside)
    for node in reversed(nodes):
        graph.erase_node(node)
    for node in graph.find_nodes(op="get_attr"):
        if not node.users:
            graph.erase_node(node)


def _module_at(part: nn.Module, path: str) -> InnerCalls:
    """Return the module at a path of `part`, made of what it holds there."""
    *outer, last = path.split(".")
    parent = part
    for name in outer:
        if name not in parent._modules:
            parent.add_module(name, nn.Module())
        parent = parent.get_submodule(name)
    place = parent._modules.get(last)
    if not isinstance(place, InnerCalls):
        place = InnerCalls(place or nn.Module())
        parent.add_module(last, place)
    return place


def _stack(node: fx.Node) -> list[str]:
    return [path for path, _kind in node.meta.get("nn_module_stack", {}).values()]
