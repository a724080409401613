"""Finds the places in a traced forward that one tensor crosses, where a model can be cut in two.

    x --> linear --> h --+--> norm --> linear --> gelu --> (+) --> y      h crosses alone before the norm, y after
                         +----------------------------------^             the sum; in between two tensors would

What counts is what depends on parameters, on the first input where that has floating point, or on chance. Masks,
position ids and tables made of buffers, constants and other inputs do not count: whoever needs them makes them again.

Between the entries of lists of modules several tensors may cross, where that is wanted: a decoder's layers hand on what
its encoder gave.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from evenflow_torch.models.exported.exported import Exported


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory:
    """Memory that several nodes may share, written in place by some of them."""

    nodes: frozenset[fx.Node]
    writers: tuple[fx.Node, ...]
    """In the order of the forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFlow:
    """The dependences between the operators of a forward."""

    exported: Exported
    written: tuple[SharedMemory, ...]
    counted: frozenset[fx.Node]
    """Nodes whose values count; see above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A place between two operators."""

    position: int
    """The operators before it are those below this index."""
    crossing: tuple[fx.Node, ...]
    """The tensors that cross, in the order in which they were made."""
    depth: int
    """Number of modules with a call that the cut interrupts, the model's own included."""
    between: tuple[str | None, str | None] = (None, None)
    """The entries of lists that run in front of and behind it."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all that crosses."""
        values = [node.meta["val"] for node in self.crossing]
        return sum(int(value.numel()) * int(value.element_size()) for value in values)


def data_flow(exported: Exported) -> DataFlow:
    """Read the dependences off a graph."""
    written = _written_memories(exported.operators)
    counted = set(exported.parameters)
    for index, node in enumerate(exported.inputs):
        value = node.meta["val"]
        if value.requires_grad or (index == 0 and value.is_floating_point()):
            counted.add(node)
    size = 0
    while size != len(counted):
        size = len(counted)
        for node in exported.operators:
            if _is_random(node) or any(source in counted for source in node.all_input_nodes):
                counted.add(node)
        for memory in written:
            if any(writer in counted for writer in memory.writers):
                counted |= {node for node in memory.nodes if node.op != "placeholder"}
    return DataFlow(exported=exported, written=written, counted=frozenset(counted))


def find_cuts(flow: DataFlow, entries: Collection[str] = ()) -> tuple[Cut, ...]:
    """Find the places where one tensor of floating point, made from inputs of the model, crosses alone; in order.

    Where one of the modules called `entries` begins or ends, several may cross, one of them made from inputs.
    """
    operators, counted = flow.exported.operators, flow.counted
    order = {node: index for index, node in enumerate(operators)}
    last_use = {flow.exported.result: len(operators)}
    for index, node in enumerate(operators):
        last_use.update((source, max(last_use.get(source, 0), index)) for source in node.all_input_nodes)
    locked = list(_locked(flow))
    fed = set(flow.exported.inputs)
    live = fed & counted
    end = 0  # of the counted operators so far
    newest: fx.Node | None = None
    cuts: list[Cut] = []
    for index, node in enumerate(operators):
        if node in counted:
            live = {value for value in live if last_use.get(value, -1) >= index}
            crossing = tuple(sorted(live, key=lambda value: order.get(value, -1)))
            between = (None if newest is None else _entry(newest, entries), _entry(node, entries))
            may_cross = len(live) == 1 or between[0] != between[1]
            if may_cross and not live.isdisjoint(fed) and all(map(_can_cross, live)):
                is_free = not any(first < end <= last for first, last in locked)
                if is_free and (not cuts or cuts[-1].crossing != crossing):
                    cuts.append(Cut(position=end, crossing=crossing, depth=_depth(crossing[-1], node), between=between))
            live.add(node)
            newest, end = node, index + 1
        if any(source in fed for source in node.all_input_nodes):
            fed.add(node)
    return tuple(cuts)


def _entry(node: fx.Node, entries: Collection[str]) -> str | None:
    """Return which of the entries an operator runs in, if in any."""
    return next((path for path in call_stack(node) if path in entries), None)


def call_stack(node: fx.Node) -> tuple[str, ...]:
    """Return the paths of the modules in whose forward a node was made, from the model inwards."""
    return tuple(path.partition("@")[0] for path, _ in node.meta.get("nn_module_stack", {}).values())


def region_of(node: fx.Node) -> fx.GraphModule | None:
    """The graph that a ``get_attr`` node stands for: operators without gradients, or with autocast."""
    if node.op != "get_attr":
        return None
    region = node.meta.get("region") or getattr(node.graph.owning_module, node.target, None)
    return region if isinstance(region, fx.GraphModule) else None


def _locked(flow: DataFlow) -> Iterator[tuple[int, int]]:
    """Yield the first and last operator on each memory that is written in place: no cut may separate them.

    Not so where all of it can be made again.
    """
    for memory in flow.written:
        if memory.nodes & flow.counted or any(node.op == "placeholder" for node in memory.nodes):
            places = [index for index, node in enumerate(flow.exported.operators) if node in memory.nodes]
            last = max(index for index in places if flow.exported.operators[index] in memory.writers)
            yield places[0], last


def _can_cross(node: fx.Node) -> bool:
    value = node.meta["val"]
    return node.op == "call_function" and isinstance(value, torch.Tensor) and value.is_floating_point()


def _depth(before: fx.Node, after: fx.Node) -> int:
    depth = 0
    for module, other in zip(call_stack(before), call_stack(after), strict=False):
        if module != other:
            break
        depth += 1
    return depth


def _written_memories(operators: Sequence[fx.Node]) -> tuple[SharedMemory, ...]:
    """Find the memories that any operator writes to."""
    sharing: dict[fx.Node, set[fx.Node]] = {}
    writers: dict[fx.Node, None] = {}
    for node in operators:
        sources = _shared_with(node)
        together = {node}.union(*(sharing.get(source, {source}) for source in sources))
        sharing |= dict.fromkeys(together, together)
        if _written(node):
            writers[node] = None
    return tuple(
        SharedMemory(nodes=frozenset(nodes), writers=tuple(writer for writer in writers if writer in nodes))
        for nodes in {id(sharing[writer]): sharing[writer] for writer in writers}.values()
    )


def _shared_with(node: fx.Node) -> list[fx.Node]:
    """Find the nodes whose memory the node's value may lie in, or that it writes to."""
    if _schema(node) is None or "dropout" in str(node.target):  # an item or a region; dropout may return what it takes
        return [source for source in node.all_input_nodes if source.op != "get_attr"]
    return _aliased(node, written=False)


def _written(node: fx.Node) -> list[fx.Node]:
    """Find the nodes whose memory an operator writes to; a region that writes at all may write to all its inputs."""
    if node.target is torch.ops.aten.detach_.default:
        return []  # no bytes; the tracer puts it behind every constant
    if _schema(node) is not None:
        return _aliased(node, written=True)
    if any(map(_written, _region_operators(node))):
        return [source for source in node.all_input_nodes if source.op != "get_attr"]
    return []


def _aliased(node: fx.Node, *, written: bool) -> list[fx.Node]:
    """Find the arguments that the operator's schema marks as shared with a result or, if `written`, as written to."""
    aliased: list[fx.Node] = []
    for index, argument in enumerate(_schema(node).arguments):
        alias = argument.alias_info
        if alias is not None and (alias.is_write or not written):
            value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            several = value if isinstance(value, tuple | list) else (value,)
            aliased += [item for item in several if isinstance(item, fx.Node)]
    return aliased


def _schema(node: fx.Node) -> Any:
    return getattr(node.target, "_schema", None)


def _is_random(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or any(
        map(_is_random, _region_operators(node))
    )


def _region_operators(node: fx.Node) -> Iterator[fx.Node]:
    """Return the operators inside the regions that a node runs."""
    for region in map(region_of, node.all_input_nodes):
        if region is not None:
            yield from (inner for inner in region.graph.nodes if inner.op == "call_function")
