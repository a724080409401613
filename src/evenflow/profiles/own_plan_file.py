"""The plan file that a person writes to have a plan priced: degrees of parallelism, and what follows from them.

    tensor: 8
    pipeline: 4
    zero: 1
    recompute: full
    layers: [21, 20, 20, 19]
    placements: {lm_head.weight: column}
    microbatches: 64
    microbatch: 8
    sequence: 4096

Or what `evenflow auto --json` wrote of a plan whose stages are all sharded alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.model import NONE
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees, read_degrees, zero_stage
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import DEVICES, LAYERS, MICROBATCHES, SEQUENCES, TOKENS, Range

DEGREES = ("tensor", "data", "context", "expert", "pipeline")
_COUNT = Range(least=0, most=LAYERS.most)
_SIZES = {"global_batch": SEQUENCES, "microbatch": SEQUENCES, "microbatches": MICROBATCHES, "sequence": TOKENS}
SCHEDULES = ("1f1b", "eager-1f1b", "f-then-b")
"""Schedules that stages can be chosen for."""
_KEYS = (*DEGREES, "zero", "recompute", "layers", "placements", *_SIZES, "schedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlan:
    """A plan as a person writes it: the same degrees in all stages."""

    file: str
    """Its name, for messages."""
    degrees: Mapping[str, int] = field(default_factory=dict)
    """By name, of `DEGREES`; those that are not said are 1, and data is what is left of the devices."""
    zero: Sharding = Sharding.NOTHING
    recompute: str = NONE
    """Recompute kind of all layers."""
    layers: tuple[int, ...] = ()
    """Layers of each stage; empty: dealt evenly."""
    placements: tuple[tuple[str, str], ...] = ()
    """Names of parameters, which may have ``*`` in them, each with the dimension that is split."""
    global_batch: int | None = None
    """Sequences of a step; what the file says of these five, or None where the command is to say it."""
    microbatch: int | None = None
    """Sequences of a microbatch, on all devices of a stage together."""
    microbatches: int | None = None
    sequence: int | None = None
    """Tokens of a sequence."""
    schedule: str | None = None


def read_own_plan(path: Path | str) -> OwnPlan:
    """Return the plan in a YAML or JSON file.

    Raises:
        InputError: a file that cannot be read, an unknown key, a value of a wrong type or range, or a plan of
            `evenflow auto` that has no degrees.
    """
    return parse_own_plan(read_text(path), place=str(path))


def parse_own_plan(text: str, *, place: str) -> OwnPlan:
    """Return the plan in a text; `place` names it in messages. Raises InputError as `read_own_plan` does."""
    fields = load_yaml(text, file=place)
    if "degrees" in fields:
        return _found(fields)
    fields.check_known(_KEYS)
    degrees = {name: fields.integer(name, DEVICES) for name in DEGREES if name in fields}
    layers = fields.integers("layers", LAYERS, length=degrees.get("pipeline", 1)) if "layers" in fields else ()
    named = optional_section(fields, "placements")
    return OwnPlan(
        file=place,
        degrees=degrees,
        zero=zero_stage(fields.values["zero"], place=fields.place("zero")) if "zero" in fields else Sharding.NOTHING,
        recompute=fields.text("recompute") if "recompute" in fields else NONE,
        layers=layers,
        placements=tuple((name, _split(named, name)) for name in named.values),
        schedule=fields.choice("schedule", SCHEDULES) if "schedule" in fields else None,
        **{name: fields.integer(name, numbers) for name, numbers in _SIZES.items() if name in fields},
    )


def _split(fields: Fields, name: str) -> str:
    """Return a word, or the number of a dimension as a word."""
    value = fields.values[name]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else fields.text(name)


def _found(fields: Fields) -> OwnPlan:
    """Return the plan that `evenflow auto` found."""
    planned = read_degrees(fields)
    if not isinstance(planned, PlannedDegrees):
        reason = "" if planned is None else planned.reason
        raise fields.error("degrees", _("must be those of all stages: {reason}", reason=reason))
    rows = fields.rows("layers", LAYERS)
    if len(rows) != 1:
        raise fields.error("layers", _("must be those of a pipeline with 1 chunk"))
    layers = tuple(rows[0])
    tables = optional_section(fields, "recompute")
    kinds = [kind for kind in tables.values if any(map(any, tables.rows(kind, _COUNT)))]
    whole = [kind for kind in kinds if tables.rows(kind, _COUNT) == [list(layers)]]
    if kinds != whole:
        raise fields.error("recompute", _("must be of all layers or of none"))
    degrees = planned.degrees
    return OwnPlan(
        file=fields.file,
        degrees={name: getattr(degrees, name) for name in DEGREES},
        zero=degrees.sharding,
        recompute=whole[0] if whole else NONE,
        layers=layers,
    )
