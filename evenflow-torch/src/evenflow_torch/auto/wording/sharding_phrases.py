"""Phrases for shardings, such as "FSDP over 4 in the node, data parallel over 2 nodes"."""

from collections.abc import Mapping, Sequence
from math import prod

from evenflow.cluster import Submesh
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow_torch.auto.sharding.ways import SHARING, AxisRole, PlainWay
from evenflow_torch.auto.wording.axis_use import SAME, AxisUse


def axis_places(mesh: Sequence[int], submesh: Submesh) -> tuple[str, ...]:
    """Return where the devices of each axis of a logical mesh lie, on the devices of `submesh` in order.

    >>> axis_places((2, 4), Submesh(2, 4)), axis_places((4, 4), Submesh(2, 8)), axis_places((2, 4), Submesh(1, 8))
    (('over 2 nodes', 'over 4 in the node'), ('over 4 across 2 nodes', 'over 4 in the node'), ('over 2', 'over 4'))
    """
    return tuple(_place([axis], mesh, submesh) for axis in range(len(mesh)))


def sharding_words(uses: Sequence[AxisUse], mesh: Sequence[int], submesh: Submesh) -> str:
    """Return a phrase for the sharding of a submesh, beginning with the axis of the nearest devices.

    >>> fsdp, data = AxisUse(role=AxisRole.DATA, sharding=Sharding.PARAMETERS), AxisUse(role=AxisRole.DATA)
    >>> sharding_words((data, fsdp), (2, 4), Submesh(2, 4)), sharding_words((fsdp, fsdp), (2, 4), Submesh(1, 8))
    ('FSDP over 4 in the node, data parallel over 2 nodes', 'FSDP over 8')
    """
    axes = [axis for axis in reversed(range(len(mesh))) if mesh[axis] > 1]
    if not axes:
        return _("one device")
    groups: list[list[int]] = []
    for axis in axes:
        if groups and uses[groups[-1][0]] == uses[axis]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    phrase, *others = (_phrase(uses[group[0]], _place(group, mesh, submesh)) for group in groups)
    for other in others:
        phrase = _("{words}, {more}", words=phrase, more=other)
    return _("mostly {words}", words=phrase) if min(uses[axis].share for axis in axes) < SAME else phrase


def plain_words(way: PlainWay, mesh: Sequence[int], submesh: Submesh, *, num_stages: int = 1) -> str:
    """Return a phrase for a plain plan with a pipeline of `num_stages` equal submeshes.

    >>> hybrid = PlainWay((AxisRole.REPLICA, AxisRole.DATA), Sharding.PARAMETERS)
    >>> plain_words(hybrid, (2, 4), Submesh(2, 4), num_stages=3)
    'FSDP over 4 in the node, data parallel over 2 nodes, pipeline of 3 stages'
    """
    phrase = sharding_words([_plain_use(role, way.sharding) for role in way.roles], mesh, submesh)
    if num_stages == 1:
        return phrase
    stages = _("pipeline of {stages} stages", stages=num_stages)
    return stages if submesh.num_devices == 1 else _("{words}, {more}", words=phrase, more=stages)


def _plain_use(role: AxisRole, sharding: Sharding) -> AxisUse:
    if role is AxisRole.REPLICA:
        return AxisUse(role=AxisRole.DATA)
    return AxisUse(role=role, sharding=sharding if role in SHARING else Sharding.NOTHING)


def _phrase(use: AxisUse, place: str) -> str:
    """Return the phrase for one axis, or for several that are used alike."""
    state = _STATES.get(use.sharding, "")
    if use.role is AxisRole.TENSOR:
        return _("tensor parallel {place}", place=place)
    if use.role is AxisRole.DATA:
        return _("{state} {place}", state=state, place=place) if state else _("data parallel {place}", place=place)
    if use.role is AxisRole.CONTEXT:
        ring = _("context parallel with ring attention {place}", place=place)
        phrase = ring if use.has_ring else _("context parallel {place}", place=place)
    elif use.role is AxisRole.EXPERT:
        phrase = _("expert parallel {place}", place=place)
    else:
        phrase = _("the same work {place}", place=place)
    return _("{words} ({state})", words=phrase, state=state) if state else phrase


_STATES: Mapping[Sharding, str] = {
    Sharding.OPTIMIZER: "ZeRO-1",
    Sharding.GRADIENTS: "ZeRO-2",
    Sharding.PARAMETERS: "FSDP",
}
"""Names of what is shared out, the same in every language."""


def _place(axes: Sequence[int], mesh: Sequence[int], submesh: Submesh) -> str:
    """Return where the devices of a group along some axes lie."""
    inside = nodes = 1
    for axis in axes:
        stride = prod(mesh[axis + 1 :])
        within = max(1, min(mesh[axis], submesh.devices_per_node // stride))
        inside, nodes = inside * within, nodes * (mesh[axis] // within)
    if submesh.num_nodes == 1 or (inside > 1 and inside * nodes == submesh.num_devices):
        return _("over {count}", count=inside * nodes)
    if nodes == 1:
        return _("over {count} in the node", count=inside)
    if inside == 1:
        return _("over {count} nodes", count=nodes)
    return _("over {count} across {nodes} nodes", count=inside * nodes, nodes=nodes)
