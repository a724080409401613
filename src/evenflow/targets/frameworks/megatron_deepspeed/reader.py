"""The plan that a training script of Megatron-DeepSpeed asks for.

Its pipeline is DeepSpeed's, which deals out the entries of `GPTModelPipe` by their type. [Megatron-DeepSpeed,
`GPTModelPipe`]
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, SELECT, Cells, Plan, Sizes, cells
from evenflow.ranges import LAYERS, Range
from evenflow.targets.entry_lists.typed_parts import (
    LAYER,
    method_rule,
    older_cut_notes,
    ranks_by_method,
    recomputed_layers,
)
from evenflow.targets.frameworks.megatron_deepspeed.configuration import configured_microbatches
from evenflow.targets.megatron_family.arguments import OF_DEEPSPEED, Arguments
from evenflow.targets.megatron_family.baseline import run_arguments, told_microbatches
from evenflow.targets.megatron_family.forks import has_partition_method
from evenflow.targets.target import Baseline, GivenSizes

METHOD, ALONE = "pp_partition_method", "no_pipeline_parallel"
USUAL_METHOD = "type:transformer"
WITH_ENDS = "type:transformer|embedding"
BY_METHOD, BY_LAYERS = "2.4", "3.0"
"""Versions by the Megatron-LM below: BigScience's has a flag for the cut, Microsoft's deals out the layers alone."""
_HEADS = {BY_METHOD: ("_to_float16", "EmbeddingPipe", "<lambda>"), BY_LAYERS: ("_to_float16", "EmbeddingPipe")}
"""Entries before the layers: BigScience's changes the order of dimensions there, and back behind them."""
_UNTIED, _NORM = "untie_embeddings_and_output_weights", "normalization"
_NUMBER = Range(least=1, most=LAYERS.most)


def entries(version: str, num_layers: int, *, arguments: Arguments | None = None) -> list[str]:
    """Return the names of the entries of the model, as the arguments of a script say."""
    values = {} if arguments is None else arguments.values
    head = "LMHeadPipe" if values.get(_UNTIED) else "EmbeddingPipe"
    if version == BY_METHOD:
        tail = ["undo", "LayerNorm", head]
    else:
        experts = ["_calculate_moe_loss"] if _has_experts(values) else []
        tail = [*experts, "LayerNorm" if values.get(_NORM, "layernorm") == "layernorm" else "RMSNorm", head]
    has_cast = arguments is None or bool(values.get("fp16") or values.get("bf16"))
    return [*_HEADS[version], *[LAYER] * num_layers, *tail, *(["float16_to_fp32"] if has_cast else [])]


def _has_experts(values: Mapping[str, object]) -> bool:
    numbers = str(values.get("num_experts", "1")).split()
    return any(number not in ("0", "1") for number in numbers)


def layers_of(ranks: list[list[str]]) -> Cells:
    """Return the layers ``[chunk][rank]`` of entries by rank."""
    return cells([[names.count(LAYER) for names in ranks]])


def planned_method(version: str, num_layers: int, num_ranks: int) -> str:
    """Return the method of the cut that is planned for.

    Where the version has a flag for it and layers and both embeddings divide, these count as a layer each.
    """
    divides = (num_layers + 2) % num_ranks == 0 and num_layers % num_ranks != 0
    return WITH_ENDS if version == BY_METHOD and divides else USUAL_METHOD


def planned_cut(version: str, num_layers: int, sizes: Sizes) -> Cells | None:
    """Return the cut that is planned for, of one chunk for each rank; None where there are too few layers."""
    method = planned_method(version, num_layers, sizes.num_ranks)
    ranks = ranks_by_method(entries(version, num_layers), method, sizes.num_ranks)
    return None if ranks is None or sizes.num_chunks > 1 else layers_of(ranks)


def told_version(text: str, file: str) -> str | None:
    """Return the version that a script is for; None where neither its flags nor the checkout that it lies in tell."""
    has_method = has_partition_method(text, file)
    return None if has_method is None else BY_METHOD if has_method else BY_LAYERS


def script_arguments(text: str, file: str) -> Arguments:
    """Return the arguments of a script that decide the pipeline; raises InputError as `run_arguments` does."""
    return run_arguments(text, file, known=OF_DEEPSPEED)


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a training script.

    Raises:
        InputError: something that makes the plan is missing, or DeepSpeed's cut is not known.
    """
    arguments = script_arguments(text, file)
    num_ranks = _num_ranks(arguments, sizes)
    num_layers = arguments.integer("num_layers", LAYERS) or sizes.num_layers
    if num_layers is None:
        raise InputError(
            rule=_("must be given"), place=arguments.place("num_layers"), remedy=_("give the layers of the network")
        )
    if sizes.num_layers is not None and num_layers != sizes.num_layers:
        rule = _("must give {given}, as asked for", given=sizes.num_layers)
        raise InputError(value=num_layers, rule=rule, place=arguments.place("num_layers"))
    notes: list[str] = []
    ranks = _ranks(arguments, told_version(text, file) or BY_LAYERS, num_layers, num_ranks, notes)
    recompute = _recompute(arguments, ranks, notes)
    plan = Plan(
        schedule="1f1b",
        num_microbatches=_microbatches(arguments, num_ranks, sizes, notes),
        layers=layers_of(ranks),
        recompute=recompute,
    )
    return Baseline(plan=plan, unknown=arguments.unknown, notes=tuple(notes))


def _ranks(arguments: Arguments, version: str, num_layers: int, num_ranks: int, notes: list[str]) -> list[list[str]]:
    """Return the names of the entries of every rank."""
    names = entries(version, num_layers, arguments=arguments)
    method = str(arguments.values.get(METHOD) or USUAL_METHOD)
    ranks = ranks_by_method(names, method, num_ranks)
    if ranks is None:
        raise InputError(
            value=method,
            rule=method_rule(num_ranks),
            place=arguments.place(METHOD),
            remedy=_("give the plan file of the cut that you run"),
        )
    notes += older_cut_notes(names, method, num_ranks)
    return ranks


def _num_ranks(arguments: Arguments, sizes: GivenSizes) -> int:
    num_ranks = arguments.num_ranks(sizes.num_ranks)
    if num_ranks > 1 and arguments.switch(ALONE):
        raise arguments.error("pipeline_model_parallel_size", _("must be 1 beside --no-pipeline-parallel"))
    return num_ranks


def _microbatches(arguments: Arguments, num_ranks: int, sizes: GivenSizes, notes: list[str]) -> int:
    """Return the microbatches of a step, which are DeepSpeed's steps of accumulation.

    Where its configuration is beside the script, what that says counts. [DeepSpeed, `PipelineEngine.train_batch`]
    """
    told = told_microbatches(arguments, num_ranks)
    configured = configured_microbatches(arguments, num_ranks, notes)
    if configured is not None and told is not None and configured != told:
        notes.append(
            _(
                "the DeepSpeed configuration has {configured} microbatches, the batches of the script {told}:"
                " DeepSpeed runs its own",
                configured=configured,
                told=told,
            )
        )
    for number in (configured, told, sizes.num_microbatches):
        if number is not None:
            return number
    raise InputError(
        rule=_("must be given, for the number of microbatches"),
        place=arguments.place("world_size"),
        remedy=_("give the number of microbatches"),
    )


def _recompute(arguments: Arguments, ranks: list[list[str]], notes: list[str]) -> Mapping[str, Cells]:
    granularity = arguments.choice("recompute_granularity", ("full", "selective"))
    if granularity == "selective" or arguments.switch("recompute_activations"):
        return {SELECT: layers_of(ranks)}
    interval = 0
    if arguments.switch("checkpoint_activations"):
        interval = arguments.integer("checkpoint_num_layers", _NUMBER) or 1
    elif granularity == "full" and arguments.choice("recompute_method", ("uniform", "block")) == "uniform":
        interval = arguments.integer("recompute_num_layers", _NUMBER) or 1
    elif granularity == "full":
        notes.append(_("DeepSpeed's pipeline recomputes nothing with the method block"))
    if not interval:
        return {}
    if interval > 1:
        notes.append(_("layers recompute in groups of {count}, which keep less than the plan says", count=interval))
    return {FULL: cells([[recomputed_layers(names, interval) for names in ranks]])}
