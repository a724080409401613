"""Reads where the user wants parameters split: name patterns with ``*``, each with a dimension.

The names are those in the whole model. Layers of a kind share their sharding, so a name must mean all of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from evenflow.cluster import REPLICATE, Mesh, placements
from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.language import _
from evenflow_torch.auto.sharding.solution_plan import dimension_names
from evenflow_torch.models.parts import Part
from evenflow_torch.models.trace.captured_layers import CapturedLayers
from evenflow_torch.models.trace.operator_graph import OperatorGraph, Role

REPLICATED = "replicated"
_NUMBERED = "dimension "


def with_placements(
    layers: CapturedLayers, parts: Sequence[Part], decided: Sequence[tuple[str, str]]
) -> CapturedLayers:
    """Return the layers with the parameters that match a pattern restricted to the split the user decided.

    Raises:
        InputError: a name that no parameter has, or only some layers of a kind; a dimension that it does not have.
    """
    graphs = list(layers.graphs)
    for pattern, word in decided:
        names = []
        is_known = False
        for kind, graph in enumerate(graphs):
            of_kind = [part for part, its in zip(parts, layers.order, strict=True) if its == kind]
            for index, operator in enumerate(graph.operators):
                if operator.role is not Role.PARAMETER:
                    continue
                full = [part.full_name(operator.name) for part in of_kind]
                names += full
                meant = sum(fnmatchcase(name, pattern) for name in full)
                if 0 < meant < len(full):
                    raise InputError(
                        value=pattern,
                        rule=_("must mean all {count} equal layers, which share a sharding", count=len(full)),
                        place="--fix",
                        remedy=_("write * in place of the layer's number"),
                    )
                if meant:
                    is_known = True
                    graphs[kind] = _split(graphs[kind], index, word, place=f"--fix: {pattern}")
        if not is_known:
            raise InputError(
                value=pattern,
                rule=_("must be the name of a parameter of the model, in which * stands for anything"),
                place="--fix",
                remedy=_("did you mean {name!r}?", name=near) if (near := nearest(pattern, names)) else "",
            )
    return replace(layers, graphs=tuple(graphs))


def _split(graph: OperatorGraph, index: int, word: str, *, place: str) -> OperatorGraph:
    """Return the graph with one parameter restricted to the split that `word` names."""
    names = dimension_names(graph, index)
    splits = {REPLICATED: REPLICATE, **{name.removeprefix(_NUMBERED): at for at, name in enumerate(names)}}
    splits |= {str(at): at for at in range(len(names))}
    if word not in splits:
        raise InputError(value=word, rule=_("must be one of {names}", names=", ".join(splits)), place=place)
    operators = list(graph.operators)
    operators[index] = replace(operators[index], kept_split=splits[word])
    return replace(graph, operators=tuple(operators))


def has_placements(layers: CapturedLayers, mesh: Mesh) -> bool:
    """Tell whether every parameter can lie on the mesh as was decided; on a single device all do."""
    return mesh.num_devices == 1 or all(
        any(operator.keeps(placement) for placement in placements(operator.outputs[0], mesh.shape, partial=False))
        for graph in layers.graphs
        for operator in graph.operators
        if operator.kept_split is not None
    )
