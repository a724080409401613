"""The plan that a training script with a pattern of layers asks for.

Stages are those between the bars of the pattern; without bars the layers are dealt out evenly. [Megatron-LM,
`validate_args`, `select_pipeline_segment`]
"""

from evenflow.targets.megatron_family.arguments import Arguments
from evenflow.targets.megatron_family.baseline import baseline, run_arguments
from evenflow.targets.megatron_family.hybrid_pattern import WITH_PATTERN, HybridPattern, check_stages, with_pattern
from evenflow.targets.target import Baseline, GivenSizes


def script_arguments(text: str, file: str) -> tuple[Arguments, HybridPattern, str]:
    """Return the arguments of a script, its pattern, and the name of the argument that has it.

    Raises:
        InputError: as `run_arguments` and `with_pattern` do.
    """
    return with_pattern(run_arguments(text, file, known=WITH_PATTERN))


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a training script; raises InputError as `script_arguments` and `baseline` do."""
    arguments, pattern, name = script_arguments(text, file)
    check_stages(arguments, pattern, name, num_ranks=arguments.num_ranks(sizes.num_ranks))
    return baseline(arguments, sizes)
