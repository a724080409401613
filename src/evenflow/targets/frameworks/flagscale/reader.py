"""The plan in the sections ``system`` and ``model`` of a FlagScale training YAML.

FlagScale makes flags of all their keys, whatever the mapping that they stand in. [FlagScale, `flatten_dict_to_args`]
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list
from evenflow.language import _
from evenflow.model import FULL, Plan
from evenflow.model.plan import cells
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import LAYERS, MICROBATCHES, RANKS
from evenflow.targets.megatron_family.arguments import OF_DEGREES, arguments_of
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.layout import format_layout
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes

SIZE = "pipeline_model_parallel_size"
SPLIT, HETERO = "hetero_pipeline_layer_split", "enable_hetero"
GRANULARITIES = "recompute_granularity_per_stage_micro_batch"
METHODS = "recompute_method_per_stage_micro_batch"
NUMBERS = "recompute_num_layers_per_stage_micro_batch"
_ORDERS = ("schedules_method", "enable_zero_bubble")
BLOCK = 1
"""The number of the method block; 0 is uniform."""
_NUMBER = re.compile(r"[0-9]{1,9}")


def read_sections(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan that a training YAML asks for.

    Raises:
        InputError: as `baseline` does; rows of recomputation that FlagScale refuses, or that differ between
            microbatches, which no plan says.
    """
    flat = all_settings(text, file)
    fields, lines = flat.values, flat.lines
    for key in _ORDERS:
        if fields.get(key) not in (None, False):
            raise flat.error(key, _("must not be given: its order of work is FlagScale's own"))
    own = (SPLIT, HETERO, GRANULARITIES, METHODS, NUMBERS)
    settings = {key: value for key, value in fields.items() if key not in own}
    if fields.get(HETERO) is True and fields.get(SPLIT) is not None:
        settings[LAYOUT] = format_layout(cells([_split(flat, sizes)]))
    rows = {key: _stages(flat, key) for key in (GRANULARITIES, METHODS, NUMBERS) if fields.get(key) is not None}
    told = next((count for stages in rows.values() for count, _value in stages), None)
    if rows and sizes.num_microbatches is None:
        sizes = replace(sizes, num_microbatches=told)
    found = baseline(arguments_of(settings, file=file, lines=lines), sizes)
    return replace(found, plan=_recomputing(found.plan, rows, flat)) if rows else found


def stated_in_sections(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a training YAML; raises InputError as `stated_degrees` does."""
    flat = all_settings(text, file)
    return stated_degrees(arguments_of(flat.values, file=file, lines=flat.lines, known=OF_DEGREES))


def all_settings(text: str, file: str) -> Fields:
    """Return the settings of both sections together."""
    top = load_yaml(text, file=file)
    check_own_keys(top, ("system", "model"), title="FlagScale")
    fields: dict[str, object] = {}
    lines: dict[str, int] = {}
    for name in ("system", "model"):
        section = optional_section(top, name)
        fields |= dict(_flat(section.values))
        lines |= {path.rpartition(".")[2]: line for path, line in section.lines.items()}
    return Fields(values=fields, file=file, lines=lines)


def _flat(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the entries of a mapping and of those inside it."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat({str(name): inner for name, inner in value.items()})
        else:
            yield key, value


def _split(fields: Fields, sizes: GivenSizes) -> tuple[int, ...]:
    """Return the layers of every stage."""
    ranks = fields.integer(SIZE, RANKS) if SIZE in fields else sizes.num_ranks or 1
    split = fields.integers(SPLIT, LAYERS, length=ranks)
    if sum(split) not in LAYERS:
        raise InputError(value=sum(split), rule=LAYERS.rule, place=_("{place}, sum", place=fields.place(SPLIT)))
    return split


def _stages(fields: Fields, key: str) -> list[tuple[int, int]]:
    """Return microbatches and value of every stage from rows ``[stages, microbatches, value, microbatches, ...]``."""
    rows = fields.values[key]
    stages: list[tuple[int, int]] = []
    for row in rows if isinstance(rows, list) else [None]:
        numbers = _numbers(row) if isinstance(row, str) else row
        if not is_integer_list(numbers) or len(numbers) < 3 or len(numbers) % 2 == 0 or numbers[0] not in RANKS:
            rule = _("must be a list of rows [stages, microbatches, value, microbatches, value, ...]")
            raise fields.error(key, rule)
        if len(set(numbers[2::2])) > 1 or sum(numbers[1::2]) not in MICROBATCHES:
            raise fields.error(key, _("must have the same value in all microbatches, as every plan has"))
        stages += [(sum(numbers[1::2]), numbers[2])] * numbers[0]
    return stages


def _numbers(text: str) -> list[int] | None:
    """Return the numbers of a row that is a text."""
    items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",")]
    return [int(item) for item in items] if all(map(_NUMBER.fullmatch, items)) else None


def _recomputing(plan: Plan, rows: Mapping[str, Sequence[tuple[int, int]]], fields: Fields) -> Plan:
    """Return `plan` with the recomputation of the rows."""
    for key, stages in rows.items():
        if len(stages) != plan.num_ranks or plan.num_chunks > 1:
            rule = _("must have a value for each of the {ranks} ranks, with one chunk", ranks=plan.num_ranks)
            raise fields.error(key, rule)
        if any(count != plan.num_microbatches for count, _value in stages):
            raise InputError(
                value=[count for count, _value in stages],
                rule=_("must be for the {count} microbatches", count=plan.num_microbatches),
                place=fields.place(key),
            )
    is_full = fields.values.get("recompute_granularity") == "full"
    is_block = fields.values.get("recompute_method") == "block"
    on = _values(rows, GRANULARITIES, plan, otherwise=int(is_full))
    methods = _values(rows, METHODS, plan, otherwise=BLOCK if is_block else 0)
    number = fields.integer("recompute_num_layers", LAYERS) if "recompute_num_layers" in fields else 0
    numbers = _values(rows, NUMBERS, plan, otherwise=number)
    counts = [
        0 if not is_on else min(first, count) if method == BLOCK else count
        for count, is_on, method, first in zip(plan.layers[0], on, methods, numbers, strict=True)
    ]
    others = {} if GRANULARITIES in rows else plan.recompute
    return replace(plan, recompute={**others, FULL: cells([counts])})


def _values(rows: Mapping[str, Sequence[tuple[int, int]]], key: str, plan: Plan, *, otherwise: int) -> list[int]:
    """Return the value of every stage."""
    return [value for _count, value in rows[key]] if key in rows else [otherwise] * plan.num_ranks
