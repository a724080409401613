"""Devices and placements of the plan in a file that ``evenflow auto --json`` writes: read, and written."""

from collections.abc import Mapping
from pathlib import Path

from evenflow.cluster import (
    REPLICATE,
    AttentionOnMesh,
    Cluster,
    Link,
    MeshPlan,
    Placement,
    Product,
    RowExchange,
    StageOnMesh,
    TensorLayout,
    code,
    parse_code,
)
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.profiles.plan_degrees import expert_capacity_of
from evenflow.profiles.report_file import read_plan_text
from evenflow.ranges import BYTES_PER_S, DEVICES, MEGABYTES, RANKS, SEQUENCES, TIME_NS, TOKENS, Range
from evenflow.units import MEGABYTE, megabytes

_RANK = Range(least=0, most=RANKS.most - 1)
_DEVICE = Range(least=0, most=DEVICES.most - 1)
_LENGTH = Range(least=0, most=10**12)
"""Length of one dimension of a tensor."""
_ITEM_BYTES = Range(least=1, most=16)
_LINK = {"bytes_per_s": BYTES_PER_S, "latency_ns": TIME_NS, "start_ns": TIME_NS}
"""Fields of the links of either reach, which are called as in `Link`."""
_PLACEMENTS = ("entries", "parameters", "gradients", "gathered", "updates")
"""Fields with a placement by name, which are called as in `StageOnMesh`."""
_LATER = ("start_ns", "gradients", "gathered")
"""Fields that files of older versions lack."""


def read_mesh_plan(path: Path | str) -> MeshPlan:
    """Return the stages on their devices in a file that ``evenflow auto --json`` wrote; see `parse_mesh_plan`."""
    text, place = read_plan_text(path)
    plan = parse_mesh_plan(text, place=place)
    if plan is None:
        raise InputError(
            rule=_("must have the fields 'stages' and 'cluster'"),
            place=place,
            remedy=_("take a file that evenflow auto --json wrote"),
        )
    return plan


def parse_mesh_plan(text: str, *, place: str) -> MeshPlan | None:
    """Return the stages on their devices in the text of a plan file; None if it is not one of ``evenflow auto``.

    Of its fields, `cluster`, `stages` and `expert_capacity` are read (docs/result-schema.md). `place` names the file
    in messages.

    Raises:
        InputError: a field that is missing, of a wrong type or against the others.
    """
    fields = as_fields(load_json(text, file=place), file=place)
    if "stages" not in fields or "cluster" not in fields:
        return None
    stages = tuple(_stage(stage) for stage in fields.objects("stages"))
    if not stages:
        raise fields.error("stages", _("must have at least one stage"))
    with fields.at("cluster"):
        cluster = _cluster(fields.inner("cluster"))
    capacity = expert_capacity_of(fields)
    with fields.at("stages"):
        return MeshPlan(cluster=cluster, stages=stages, expert_capacity=capacity)


def parse_sizes(text: str, *, place: str) -> tuple[int, int, int]:
    """Return the tokens of a sequence and of a target, and the sequences of a microbatch, that a plan is for.

    Where a plan does not say, a target is as long as a sequence.
    """
    fields = as_fields(load_json(text, file=place), file=place)
    sequence = fields.integer("sequence", TOKENS)
    target = fields.integer("target_sequence", TOKENS) if "target_sequence" in fields else sequence
    return sequence, target, fields.integer("microbatch", SEQUENCES)


def _cluster(fields: Fields) -> Cluster:
    num_nodes, devices_per_node = fields.integers("mesh", DEVICES, length=2)

    def link(reach: str) -> Link:
        keys = {name: f"{reach}_{name}" for name in _LINK}
        known = {name: key for name, key in keys.items() if name not in _LATER or key in fields}
        return Link(**{name: fields.integer(key, _LINK[name]) for name, key in known.items()})

    return Cluster(
        name=fields.text("name"),
        num_nodes=num_nodes,
        devices_per_node=devices_per_node,
        memory_bytes=round(fields.number("memory_mb", MEGABYTES, above_zero=True) * MEGABYTE),
        intra=link("intra"),
        inter=link("inter"),
    )


def cluster_fields(cluster: Cluster) -> dict[str, object]:
    """Return the field `cluster` of a plan file."""
    links = {"intra": cluster.intra, "inter": cluster.inter}
    return {
        "name": cluster.name,
        "mesh": [cluster.num_nodes, cluster.devices_per_node],
        "memory_mb": megabytes(cluster.memory_bytes),
        **{f"{reach}_{name}": getattr(link, name) for name in _LINK for reach, link in links.items()},
        "host_bytes_per_s": None if cluster.host is None else cluster.host.bytes_per_s,
    }


def _stage(fields: Fields) -> StageOnMesh:
    mesh, devices = fields.integers("mesh", DEVICES), fields.integers("devices", _DEVICE)

    def layout(key: str) -> TensorLayout:
        inner = fields.inner(key)
        with fields.at(key):
            return TensorLayout(
                shape=inner.integers("shape", _LENGTH),
                item_bytes=inner.integer("item_bytes", _ITEM_BYTES),
                mesh=mesh,
                placement=_placement(inner, "placement", axes=len(mesh)),
                devices=devices,
            )

    def placements(key: str) -> dict[str, Placement]:
        inner = fields.inner(key)
        return {name: _placement(inner, name, axes=len(mesh)) for name in inner.values}

    products = fields.inner("products")
    return StageOnMesh(
        rank=fields.integer("rank", _RANK),
        input=layout("input"),
        output=None if fields.required("output") is None else layout("output"),
        products={name: _product(products.inner(name), axes=len(mesh)) for name in products.values},
        attention=_attention(fields.inner("attention"), axes=len(mesh)) if "attention" in fields else {},
        **{key: placements(key) for key in _PLACEMENTS if key not in _LATER or key in fields},
    )


def tensor_fields(stage: StageOnMesh) -> dict[str, object]:
    """Return how tensors lie on the devices of a stage: an entry of `stages` beside rank, mesh and devices."""
    return {
        "input": _layout_fields(stage.input),
        "output": None if stage.output is None else _layout_fields(stage.output),
        **{key: _codes(getattr(stage, key)) for key in _PLACEMENTS},
        "products": {
            name: {
                "reads": code(product.reads),
                "gives": code(product.gives),
                **({} if product.experts is None else {"experts": code(product.experts)}),
            }
            for name, product in stage.products.items()
        },
        "attention": {
            name: {
                "placement": code(attention.placement),
                "rows": str(attention.rows),
                "backward_rows": str(attention.backward_rows),
            }
            for name, attention in stage.attention.items()
        },
    }


def _layout_fields(layout: TensorLayout) -> dict[str, object]:
    return {"shape": layout.shape, "item_bytes": layout.item_bytes, "placement": code(layout.placement)}


def _codes(placements: Mapping[str, Placement]) -> dict[str, str]:
    return {name: code(placement) for name, placement in placements.items()}


def _attention(fields: Fields, *, axes: int) -> dict[str, AttentionOnMesh]:
    attention = {}
    for name in fields.values:
        inner = fields.inner(name)
        placement = _placement(inner, "placement", axes=axes)
        if not set(placement) <= {REPLICATE, 0, 1, 2}:
            raise inner.error("placement", _("must have R, S(0), S(1) or S(2) for each axis of the mesh"))
        rows, backward_rows = (RowExchange(inner.choice(key, RowExchange)) for key in ("rows", "backward_rows"))
        attention[name] = AttentionOnMesh(placement=placement, rows=rows, backward_rows=backward_rows)
    return attention


def _product(fields: Fields, *, axes: int) -> Product:
    experts = _placement(fields, "experts", axes=axes) if "experts" in fields else None
    if experts is not None and not set(experts) <= {REPLICATE, 0, 1}:
        raise fields.error("experts", _("must have R, S(0) or S(1) for each axis of the mesh"))
    return Product(
        reads=_placement(fields, "reads", axes=axes), gives=_placement(fields, "gives", axes=axes), experts=experts
    )


def _placement(fields: Fields, key: str, *, axes: int) -> Placement:
    """Return a placement from its code, such as ``S(0) R``."""
    text = fields.text(key)
    try:
        placement = parse_code(text)
    except ValueError:
        placement = ()
    if len(placement) != axes:
        raise fields.error(key, _("must have R, P or S(dimension) for each of the {axes} axes of the mesh", axes=axes))
    return placement
