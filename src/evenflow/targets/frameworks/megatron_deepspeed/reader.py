"""The plan that a training script of Megatron-DeepSpeed asks for.

Its pipeline is DeepSpeed's, which deals out the entries of `GPTModelPipe` by their type. [Megatron-DeepSpeed,
`GPTModelPipe`]
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, SELECT, Cells, Plan, Sizes, cells
from evenflow.ranges import LAYERS, Range
from evenflow.targets.entry_lists.typed_parts import LAYER, recomputed_layers, typed_ranks, words_of_method
from evenflow.targets.megatron_family.arguments import KNOWN, Arguments
from evenflow.targets.megatron_family.baseline import run_arguments, told_microbatches
from evenflow.targets.target import Baseline, GivenSizes

METHOD, ALONE = "pp_partition_method", "no_pipeline_parallel"
USUAL_METHOD = "type:transformer"
WITH_ENDS = "type:transformer|embedding"
BY_METHOD, BY_LAYERS = "2.4", "3.0"
"""Versions by the Megatron-LM below: BigScience's has a flag for the cut, Microsoft's deals out the layers alone."""
_HEAD = ("_to_float16", "EmbeddingPipe", "<lambda>")
_TAIL = ("undo", "LayerNorm", "EmbeddingPipe", "float16_to_fp32")
_UNTIED_TAIL = ("undo", "LayerNorm", "LMHeadPipe", "float16_to_fp32")
_UNTIED = "untie_embeddings_and_output_weights"
_NUMBER = Range(least=1, most=LAYERS.most)


def told_version(text: str, file: str) -> str | None:
    """Return the version whose flags a script has; None where it has none of its own."""
    return BY_METHOD if "--pp-partition-method" in text else None


def own_cut(method: str, num_layers: int, num_ranks: int, *, is_tied: bool = True) -> list[list[str]] | None:
    """Return the names of the entries of every rank; None where too few count for that, or the method is not known."""
    types = words_of_method(method)
    if types is None or not any(word in LAYER.lower() for word in types):
        return None
    names = [*_HEAD, *[LAYER] * num_layers, *(_TAIL if is_tied else _UNTIED_TAIL)]
    counting = sum(any(word in name.lower() for word in types) for name in names)
    return None if counting < num_ranks else typed_ranks(names, types, num_ranks)


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
    ranks = own_cut(planned_method(version, num_layers, sizes.num_ranks), num_layers, sizes.num_ranks)
    return None if ranks is None or sizes.num_chunks > 1 else layers_of(ranks)


def script_arguments(text: str, file: str) -> Arguments:
    """Return the arguments of a script that decide the pipeline; raises InputError as `run_arguments` does."""
    return run_arguments(text, file, known=KNOWN | {METHOD})


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
    method = str(arguments.values.get(METHOD) or USUAL_METHOD)
    ranks = own_cut(method, num_layers, num_ranks, is_tied=not arguments.switch(_UNTIED))
    if ranks is None:
        raise InputError(
            value=method,
            rule=_("must be type: and words in the name {name}, with as many entries of it as ranks", name=LAYER),
            place=arguments.place(METHOD),
            remedy=_("give the plan file of the cut that you run"),
        )
    notes: list[str] = []
    recompute = _recompute(arguments, ranks, notes)
    plan = Plan(
        schedule="1f1b",
        num_microbatches=_microbatches(arguments, num_ranks, sizes),
        layers=layers_of(ranks),
        recompute=recompute,
    )
    return Baseline(plan=plan, unknown=arguments.unknown, notes=tuple(notes))


def _num_ranks(arguments: Arguments, sizes: GivenSizes) -> int:
    num_ranks = arguments.num_ranks(sizes.num_ranks)
    if num_ranks > 1 and arguments.switch(ALONE):
        raise arguments.error("pipeline_model_parallel_size", _("must be 1 beside --no-pipeline-parallel"))
    return num_ranks


def _microbatches(arguments: Arguments, num_ranks: int, sizes: GivenSizes) -> int:
    """Return the microbatches of a step, which are DeepSpeed's steps of accumulation."""
    told = told_microbatches(arguments, num_ranks)
    for number in (told, sizes.num_microbatches):
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
