"""A framework that is made up for the tests: so many first layers of every cell recompute, and no order of its own."""

import re

from evenflow.errors import InputError
from evenflow.model import Abilities, Empty, Groups, Plan, Recomputation, Scope
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

KEYS = ("stages", "layers", "full", "microbatches")


def values(plan: Plan) -> dict[str, str]:
    full = max(map(max, plan.recompute.get("full", ((0,),))))
    layers = "|".join(",".join(map(str, row)) for row in plan.layers)
    return dict(zip(KEYS, (str(plan.num_ranks), layers, str(full), str(plan.num_microbatches)), strict=True))


def write(plan: Plan, version: str) -> Written:
    text = "".join(f"{key} = {value}\n" for key, value in values(plan).items())
    order = Piece(title="its order", syntax="csv", text="0F0,0B0\n", file_name="order.csv")
    script = Piece(title="a script", syntax="shell", text=f"#!/bin/sh\n{text}", file_name="run.sh")
    fragment = Piece(title="settings", syntax="toml", text=f"# version {version}\n{text}")
    return Written(pieces=(fragment, order, script), environment={"FAST": "1"}, notes=("start it anew",))


def read(text: str, file: str, given: GivenSizes) -> Baseline:
    found = dict(re.findall(r"^(\w+) = (.*)$", text, re.MULTILINE))
    if "layers" not in found:
        raise InputError(value=None, rule="must have the key layers", place=file)
    layers = tuple(tuple(map(int, row.split(","))) for row in found["layers"].split("|"))
    full = tuple(tuple(min(int(found.get("full", 0)), count) for count in row) for row in layers)
    plan = Plan(
        schedule="1f1b" if len(layers) == 1 else "interleaved",
        num_microbatches=int(found.get("microbatches", given.num_microbatches or 1)),
        layers=layers,
        recompute={"full": full},
    )
    unknown = tuple(f"{file}, line 1: {key}" for key in found if key not in KEYS)
    return Baseline(plan=plan, unknown=unknown, notes=("one chunk is assumed",) if "chunks" not in found else ())


def apply(text: str, file: str, plan: Plan) -> str:
    for key, value in values(plan).items():
        if not re.search(rf"^{key} = ", text, re.MULTILINE):
            raise InputError(value=None, rule=f"must have the key {key}", place=file)
        text = re.sub(rf"^({key} = )[^\r\n]*", rf"\g<1>{value}", text, flags=re.MULTILINE)
    return text


def abilities(version: str) -> Abilities:
    return Abilities(
        schedules=("1f1b", "interleaved"),
        recomputation=(Recomputation(scope=Scope.COUNT),) if version == "2.0" else (),
        most_chunks=2,
        empty=Empty.ANY,
        groups=Groups.MEGATRON,
    )


EXAMPLE = Target(
    name="example",
    title="Example",
    versions=("1.0", "2.0"),
    checked_with="example 2.1",
    page="example",
    abilities=abilities,
    write=write,
    read=read,
    recognise=lambda text, file: text.startswith("# example"),
    apply=apply,
)
UNCHECKED = Target(
    name="unchecked",
    title="Unchecked",
    versions=("1",),
    checked_with="",
    page="unchecked",
    abilities=lambda version: Abilities(schedules=("1f1b",), recomputation=(), most_chunks=1),
    write=lambda plan, version: Written(pieces=(Piece(title="all", syntax="text", text="all\n"),)),
)
