"""Devices and placements of the plan in a file that ``evenflow auto --json`` wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from evenflow.cluster.cluster import Cluster, Link
from evenflow.cluster.layout import Layout
from evenflow.cluster.mesh_plan import MeshPlan, Product, StageOnMesh
from evenflow.cluster.placement import Placement, parse_code
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, is_integer_list, load_json, read_text
from evenflow.units import MEGABYTE

_MOST = 10**18

T = TypeVar("T")


def read_mesh_plan(path: Path | str) -> MeshPlan:
    """The stages on their devices in a file that ``evenflow auto --json`` wrote; see `parse_mesh_plan`."""
    found = parse_mesh_plan(read_text(path), place=str(path))
    if found is None:
        raise InputError(
            value=str(path),
            rule="a file of `evenflow auto --json` with the stages and the cluster they lie on",
            place=str(path),
        )
    return found


def parse_mesh_plan(text: str, *, place: str) -> MeshPlan | None:
    """The stages on their devices in the text of a plan file; None if it is not one of ``evenflow auto``.

    Of its fields, `cluster` and `stages` are read (docs/result-schema.md). `place` names the file in messages.

    Raises:
        InputError: a field that is missing, of a wrong type or against the others.
    """
    fields = as_fields(load_json(text, file=place), file=place)
    if "stages" not in fields or "cluster" not in fields:
        return None
    stages = tuple(_stage(one) for one in _objects(fields, "stages"))
    cluster = _checked(fields, "cluster", lambda: _cluster(fields.inner("cluster")))
    return _checked(fields, "stages", lambda: MeshPlan(cluster=cluster, stages=stages))


def parse_sizes(text: str, *, place: str) -> tuple[int, int]:
    """Tokens of a sequence, and sequences of a microbatch, that the plan in a file of ``evenflow auto`` is for."""
    fields = as_fields(load_json(text, file=place), file=place)
    return fields.integer("sequence", maximum=_MOST), fields.integer("microbatch", maximum=_MOST)


def _cluster(fields: Fields) -> Cluster:
    num_nodes, devices_per_node = _numbers(fields, "mesh", length=2)

    def link(which: str) -> Link:
        return Link(
            bytes_per_s=fields.integer(f"{which}_bytes_per_s", maximum=_MOST),
            latency_ns=_whole(fields, f"{which}_latency_ns"),
        )

    return Cluster(
        name=fields.text("name"),
        num_nodes=num_nodes,
        devices_per_node=devices_per_node,
        memory_bytes=round(fields.number("memory_mb", above_zero=True) * MEGABYTE),
        intra=link("intra"),
        inter=link("inter"),
    )


def _stage(fields: Fields) -> StageOnMesh:
    mesh, devices = _numbers(fields, "mesh"), _numbers(fields, "devices")

    def layout(key: str) -> Layout:
        inner = fields.inner(key)
        return _checked(
            fields,
            key,
            lambda: Layout(
                shape=_numbers(inner, "shape"),
                item_bytes=inner.integer("item_bytes", maximum=_MOST),
                mesh=mesh,
                placement=_placement(inner, "placement", axes=len(mesh)),
                devices=devices,
            ),
        )

    def placements(key: str) -> dict[str, Placement]:
        inner = fields.inner(key)
        return {name: _placement(inner, name, axes=len(mesh)) for name in inner.values}

    products = fields.inner("products")
    return StageOnMesh(
        rank=_whole(fields, "rank"),
        input=layout("input"),
        output=None if fields.required("output") is None else layout("output"),
        parameters=placements("parameters"),
        updates=placements("updates"),
        entries=placements("entries"),
        products={
            name: Product(
                reads=_placement(products.inner(name), "reads", axes=len(mesh)),
                gives=_placement(products.inner(name), "gives", axes=len(mesh)),
            )
            for name in products.values
        },
    )


def _placement(fields: Fields, key: str, *, axes: int) -> Placement:
    text = fields.text(key)
    try:
        placement = parse_code(text)
    except ValueError:
        placement = ()
    if len(placement) != axes:
        raise InputError(
            value=text,
            rule=f"a placement has R, P or S(dimension) for each of the {axes} axes of the mesh",
            place=fields.place(key),
        )
    return placement


def _whole(fields: Fields, key: str) -> int:
    value = fields.required(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise InputError(value=value, rule="a whole number", place=fields.place(key))
    return value


def _numbers(fields: Fields, key: str, *, length: int | None = None) -> tuple[int, ...]:
    value: Any = fields.required(key)
    if not is_integer_list(value) or any(one < 0 for one in value) or (length or len(value)) != len(value):
        rule = "a list of whole numbers" if length is None else f"a list of {length} whole numbers"
        raise InputError(value=value, rule=f"{key} is {rule}", place=fields.place(key))
    return tuple(value)


def _objects(fields: Fields, key: str) -> list[Fields]:
    value = fields.required(key)
    if not isinstance(value, list) or not value:
        raise InputError(value=value, rule=f"'{key}' is a list of objects", place=fields.place(key))
    return [as_fields(one, file=fields.file, path=f"{key}[{index}]") for index, one in enumerate(value)]


def _checked(fields: Fields, key: str, make: Callable[[], T]) -> T:
    """Rules of the parts themselves do not know the file."""
    try:
        return make()
    except InputError as error:
        if fields.file in error.place:
            raise
        raise InputError(value=error.value, rule=error.rule, place=fields.place(key), remedy=error.remedy) from None
