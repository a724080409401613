"""A run of a traced forward's operators as a module of its own, between two places where the model can be cut.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from evenflow_torch.models.exported.crossings import Cut, DataFlow, region_of


class Segment(nn.Module):  # torch is not checked
    """A module that runs a part of a traced forward, with the model's own parameters.

    Takes what crosses into it, or the first input that it needs, and by keyword the other inputs that it needs.
    """

    def __init__(self, graph: fx.Graph, *, tensors: Mapping[str, torch.Tensor], named: tuple[str, ...] = ()) -> None:
        """`graph` reads `tensors` by name; its last placeholders are the `named` ones."""
        super().__init__()
        self._graph = graph
        self._named = named
        # Plain text among a module's attributes is part of its fingerprint: equal segments become equal layers.
        self._structure = structure(graph)
        for name, tensor in tensors.items():
            _register(self, name, tensor)
        for node in graph.nodes:
            region = region_of(node)
            if region is not None:
                self.add_module(node.target, Segment(region.graph, tensors={}))

    def forward(self, *args: Any, **named: Any) -> Any:
        """Return what crosses out of the segment, a tuple where that is several tensors, or the model's result."""
        return fx.Interpreter(self, graph=self._graph).run(*args, *(named[name] for name in self._named))


def _register(module: nn.Module, name: str, tensor: torch.Tensor) -> None:
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module._modules[part]
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(last, tensor)
    else:
        module.register_buffer(last, tensor)


def structure(graph: fx.Graph) -> str:
    """Return a text of operators with arguments, shapes and types but no names, the same for equal segments."""
    number = {node: f"%{index}" for index, node in enumerate(graph.nodes)}

    def text_of(argument: Any) -> str:
        if isinstance(argument, fx.Node):
            return number[argument]
        if isinstance(argument, tuple | list):
            return f"[{', '.join(map(text_of, argument))}]"
        return repr(argument)

    lines = []
    for node in graph.nodes:
        region, value = region_of(node), node.meta.get("val")
        if region is not None:
            lines.append(structure(region.graph))
        elif node.op in ("placeholder", "get_attr"):
            kind = f"{list(value.shape)} {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)
            lines.append(f"{number[node]} = {node.op} {kind}")
        else:
            keywords = [f"{key}={text_of(argument)}" for key, argument in node.kwargs.items()]
            lines.append(f"{number[node]} = {node.target}({', '.join([*map(text_of, node.args), *keywords])})")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDraft:
    """A segment whose tensors have no names yet."""

    graph: fx.Graph
    inputs: tuple[fx.Node, ...]
    """Nodes of the traced forward: what crosses into it, or the first input that it needs; then its other inputs."""
    num_entering: int
    """Number of the inputs that are passed by position."""
    tensors: Mapping[fx.Node, fx.Node]
    """The node that reads a tensor, by node of the traced forward, in order of use."""
    operators: tuple[fx.Node, ...]
    """Operators of the traced forward that run here and nowhere else."""

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the inputs that are passed by keyword."""
        return tuple(node.name for node in self.inputs[self.num_entering :])

    def key(self, flow: DataFlow) -> tuple[Hashable, ...]:
        """Return a key that two segments share if they differ at most in values and names."""
        return structure(self.graph), tuple(flow.exported.tensors[source].requires_grad for source in self.tensors)

    def module(self, flow: DataFlow, names: Sequence[str]) -> Segment:
        """Return the segment as a module, with these names for its tensors."""
        for node, name in zip(self.tensors.values(), names, strict=True):
            node.target = name
        tensors = {name: flow.exported.tensors[source] for name, source in zip(names, self.tensors, strict=True)}
        return Segment(self.graph, tensors=tensors, named=self.named)


def draft_segment(flow: DataFlow, before: Cut | None, after: Cut | None) -> SegmentDraft:
    """Return the segment between two cuts; None stands for the beginning or the end of the model."""
    operators = flow.exported.operators
    entering = before.crossing if before else ()
    leaving = after.crossing if after else (flow.exported.result,)
    start, end = before.position if before else 0, after.position if after else len(operators)
    needed = _needed(flow, leaving, entering, here=operators[start:end], earlier=operators[:start])
    inputs = [node for node in flow.exported.inputs if node in needed]
    inputs = [*entering, *inputs]
    graph = fx.Graph(owning_module=leaving[0].graph.owning_module)
    copies = {node: _copied(graph.placeholder(node.name), node) for node in inputs}
    tensors: dict[fx.Node, fx.Node] = {}
    for node in operators:
        if node not in needed:
            continue
        for source in node.all_input_nodes:
            if source in flow.exported.tensors and source not in tensors:
                tensors[source] = _copied(graph.create_node("get_attr", f"tensor_{len(tensors)}"), source)
                copies[source] = tensors[source]
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if (region := region_of(node)) is not None:
            copies[node].meta["region"] = region
            copies[node].target = f"_region_{len(copies)}"  # not as in the model, so that equal segments are equal
    results = tuple(copies[node] for node in leaving)
    graph.output(results[0] if len(results) == 1 else results)
    return SegmentDraft(
        graph=graph,
        inputs=tuple(inputs),
        num_entering=len(entering) or 1,
        tensors=tensors,
        operators=tuple(node for node in operators[start:end] if node in needed and node in flow.counted),
    )


def _copied(copy: fx.Node, node: fx.Node) -> fx.Node:
    copy.meta = dict(node.meta)
    return copy


def _needed(
    flow: DataFlow,
    leaving: Sequence[fx.Node],
    entering: Sequence[fx.Node],
    *,
    here: Sequence[fx.Node],
    earlier: Sequence[fx.Node],
) -> set[fx.Node]:
    """Find the nodes that lead from `entering` to `leaving`, and those that write in place to any of them.

    What is written to buffers is written once; what does not count is made again, with all that was written to it.
    """
    inside, made_again = set(here), set(here) | set(earlier)
    writers: dict[fx.Node, list[fx.Node]] = {}
    left = [*leaving]
    for memory in flow.written:
        is_given = any(node.op == "placeholder" for node in memory.nodes)
        places = inside if is_given or memory.nodes & flow.counted else made_again
        writing = [node for node in memory.writers if node in places]
        writers |= dict.fromkeys(memory.nodes, writing)
        left += writing if is_given else []
    needed: set[fx.Node] = set()
    while left:
        node = left.pop()
        if node not in needed and node not in entering:
            needed.add(node)
            left += [*node.all_input_nodes, *writers.get(node, ())]
    return needed
