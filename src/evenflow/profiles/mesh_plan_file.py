"""Devices and placements of the plan in a file that ``evenflow auto --json`` wrote."""

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
    parse_code,
)
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.profiles.plan_degrees import expert_capacity_of
from evenflow.profiles.report_file import read_plan_text
from evenflow.ranges import BYTES_PER_S, DEVICES, MEGABYTES, RANKS, SEQUENCES, TIME_NS, TOKENS, Range
from evenflow.units import MEGABYTE

_RANK = Range(least=0, most=RANKS.most - 1)
_DEVICE = Range(least=0, most=DEVICES.most - 1)
_LENGTH = Range(least=0, most=10**12)
"""Length of one dimension of a tensor."""
_ITEM_BYTES = Range(least=1, most=16)


def read_mesh_plan(path: Path | str) -> MeshPlan:
    """Return the stages on their devices in a file that ``evenflow auto --json`` wrote; see `parse_mesh_plan`."""
    text, place = read_plan_text(path)
    plan = parse_mesh_plan(text, place=place)
    if plan is None:
        raise InputError(
            value=None,
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
        return Link(
            bytes_per_s=fields.integer(f"{reach}_bytes_per_s", BYTES_PER_S),
            latency_ns=fields.integer(f"{reach}_latency_ns", TIME_NS),
            start_ns=fields.integer(f"{reach}_start_ns", TIME_NS) if f"{reach}_start_ns" in fields else 0,
        )

    return Cluster(
        name=fields.text("name"),
        num_nodes=num_nodes,
        devices_per_node=devices_per_node,
        memory_bytes=round(fields.number("memory_mb", MEGABYTES, above_zero=True) * MEGABYTE),
        intra=link("intra"),
        inter=link("inter"),
    )


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
        parameters=placements("parameters"),
        updates=placements("updates"),
        gradients=placements("gradients") if "gradients" in fields else {},
        gathered=placements("gathered") if "gathered" in fields else {},
        entries=placements("entries"),
        products={name: _product(products.inner(name), axes=len(mesh)) for name in products.values},
        attention=_attention(fields.inner("attention"), axes=len(mesh)) if "attention" in fields else {},
    )


def _attention(fields: Fields, *, axes: int) -> dict[str, AttentionOnMesh]:
    attention = {}
    for name in fields.values:
        inner = fields.inner(name)
        placement = _placement(inner, "placement", axes=axes)
        if not set(placement) <= {REPLICATE, 0, 1, 2}:
            raise inner.error("placement", _("must have R, S(0), S(1) or S(2) for each axis of the mesh"))
        rows, backward_rows = (_row_exchange(inner, key) for key in ("rows", "backward_rows"))
        attention[name] = AttentionOnMesh(placement=placement, rows=rows, backward_rows=backward_rows)
    return attention


def _row_exchange(fields: Fields, key: str) -> RowExchange:
    text = fields.text(key)
    if text not in tuple(RowExchange):
        raise fields.error(key, _("must be one of {names}", names=", ".join(RowExchange)))
    return RowExchange(text)


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
