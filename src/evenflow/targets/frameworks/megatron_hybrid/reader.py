"""The plan that a training script with a pattern of layers asks for.

Stages are those between the bars of the pattern; without bars the layers are dealt out evenly. [Megatron-LM,
`validate_args`, `select_pipeline_segment`]
"""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.arguments import Arguments
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline, run_arguments
from evenflow.targets.megatron_family.even_cuts import EMBEDDING, FIRST, LAST, LOSS, STAGE_LAYERS, STAGES
from evenflow.targets.megatron_family.hybrid_pattern import (
    OLD_PATTERN,
    PATTERN,
    WITH_PATTERN,
    HybridPattern,
    parse_pattern,
    pattern_name,
)
from evenflow.targets.target import Baseline, GivenSizes

_EXCLUDED = (STAGE_LAYERS, STAGES, LAYOUT, EMBEDDING, LOSS)
"""Arguments that Megatron-LM refuses beside a pattern."""


def script_arguments(text: str, file: str) -> tuple[Arguments, HybridPattern, str]:
    """Return the arguments of a script, its pattern, and the name of the argument that has it.

    The stages of the pattern are a layout among the arguments, and its layers their number.

    Raises:
        InputError: as `run_arguments` and `parse_pattern` do; no pattern, two of them, or what is refused beside it.
    """
    arguments = run_arguments(text, file, known=WITH_PATTERN)
    name = pattern_name(arguments)
    if name is None:
        raise InputError(rule=_("must be given"), place=arguments.place(PATTERN))
    if arguments.values.get(PATTERN) is not None and arguments.values.get(OLD_PATTERN) is not None:
        raise arguments.error(OLD_PATTERN, _("must not be given beside {other}", other=PATTERN))
    if "$" in str(arguments.values[name]):
        raise arguments.error(name, _("must be a pattern of layers"))
    pattern = parse_pattern(arguments.values[name], place=arguments.place(name))
    ends = (FIRST, LAST) if len(pattern.segments) > 1 else ()
    for key in (*_EXCLUDED, *ends):
        if arguments.values.get(key):
            raise arguments.error(key, _("must not be given beside a pattern of layers"))
    values = {**arguments.values, "num_layers": len(pattern.symbols), "mtp_num_layers": len(pattern.further)}
    if len(pattern.segments) > 1:
        values[LAYOUT] = "|".join("t" * len(segment) for segment in pattern.segments)
        values[LAYOUT] = f"E{values[LAYOUT]}L"
    return replace(arguments, values=values), pattern, name


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a training script; raises InputError as `script_arguments` and `baseline` do."""
    arguments, pattern, name = script_arguments(text, file)
    num_ranks = arguments.num_ranks(sizes.num_ranks)
    if len(pattern.segments) > 1 and len(pattern.segments) % num_ranks:
        rule = _("must have stages that are a multiple of the {ranks} ranks", ranks=num_ranks)
        raise InputError(value=len(pattern.segments), rule=rule, place=arguments.place(name))
    return baseline(arguments, sizes)
