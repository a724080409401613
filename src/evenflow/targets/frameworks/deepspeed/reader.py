"""The plan that a DeepSpeed configuration, or one of GPT-NeoX, asks for.

A DeepSpeed configuration says nothing of the cut, which the training script gives to `PipelineModule`. GPT-NeoX, which
trains with DeepSpeed's pipeline, says all of it. Its default counts what has ``transformer`` in its name, and that are
also the two functions that stand before and after the layers [GPT-NeoX, `GPT2ModelPipe.init_specs`], so the first and
the last rank get a layer less each.
"""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Plan, cells
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import zero_stage
from evenflow.ranges import LAYERS, MICROBATCHES, RANKS, Range
from evenflow.targets.entry_lists.settings import FileSettings, even_counts, read_settings
from evenflow.targets.entry_lists.typed_parts import (
    LAYER,
    method_rule,
    older_cut_notes,
    ranks_by_method,
    recomputed_layers,
)
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers
from evenflow.targets.target import Baseline, GivenSizes

_STAGES, _METHOD, _LAYERS = "pipe_parallel_size", "pipe_partition_method", "num_layers"
_STEPS, _PIPELINE, _INTERVAL = "gradient_accumulation_steps", "pipeline", "activation_checkpoint_interval"
_NEOX_METHOD = "type:transformer|mlp"
_HEAD = ("EmbeddingPipe", "_pre_transformer_block")
_TAIL = ("_post_transformer_block", "NormPipe", "ParallelLinearPipe")
_MARKS = ("train_micro_batch_size_per_gpu", "train_batch_size", "zero_optimization")
"""Keys that files of DeepSpeed have, and no others."""
_OWN_KEYS = (_STEPS, _STAGES, _METHOD, _PIPELINE, "activation_checkpointing", "fp16", "bf16", "optimizer", "scheduler")
_HAVE_TO_DO = ("attention_config", "checkpoint_in_cpu", "model_arch", "num_encoder_layers")


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a configuration in JSON or YAML.

    Raises:
        InputError: text that is neither, a size that is neither there nor given, or a cut that it does not tell.
    """
    settings = read_settings(text, file)
    check_own_keys(settings.fields, (*_MARKS, *_OWN_KEYS), title="DeepSpeed")
    is_neox = _is_neox(settings)
    num_layers = settings.size((_LAYERS,), sizes.num_layers, LAYERS, option="--layers")
    stages = Range(least=0 if is_neox else 1, most=RANKS.most)  # of GPT-NeoX, 0 is a model in one piece
    num_ranks = settings.size((_STAGES,), sizes.num_ranks, stages, option="--ranks") or 1
    num_microbatches = settings.size((_STEPS,), sizes.num_microbatches, MICROBATCHES, option="--microbatches")
    if num_layers < num_ranks:
        rule = _("must be at least the number of ranks ({num_ranks})", num_ranks=num_ranks)
        raise InputError(value=num_layers, rule=rule, place=settings.fields.place(_LAYERS))
    interval = _interval(settings, is_neox=is_neox)
    if is_neox:
        notes: list[str] = []
        ranks = _neox_ranks(settings, num_layers, num_ranks, notes)
        counts = [names.count(LAYER) for names in ranks]
        full = [recomputed_layers(names, interval) for names in ranks]
    else:
        counts = even_counts(num_layers, num_ranks)
        full = counts if interval else []
        notes = [_("the file does not say where the model is cut: the layers are dealt out evenly")]
    if interval > 1:
        notes.append(_("layers recompute in groups of {count}, which keep less than the plan says", count=interval))
    if interval and not is_neox:
        notes.append(_("the head and the tail of the model are recomputed too, which is not in the plan"))
    with settings.fields.at():
        plan = Plan(
            schedule="1f1b",
            num_microbatches=num_microbatches,
            layers=cells([counts]),
            recompute={FULL: cells([full])} if any(full) else {},
        )
    unknown = [
        name
        for name in settings.fields.values
        if (name.startswith("pipe") and name not in (_STAGES, _METHOD, _PIPELINE)) or name in _HAVE_TO_DO
    ]
    return Baseline(plan=plan, unknown=tuple(map(settings.fields.place, unknown)), notes=tuple(notes))


def stated_in_configuration(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a configuration of DeepSpeed or GPT-NeoX; raises InputError for wrong values."""
    settings = read_settings(text, file).fields
    zero = settings.inner("zero_optimization") if "zero_optimization" in settings else None
    sizes = {
        "tensor": (settings, "model_parallel_size"),
        "context": (settings, "sequence_parallel_size"),
        "pipeline": (settings, _STAGES),
        "microbatch": (settings, "train_micro_batch_size_per_gpu"),
        "global_batch": (settings, "train_batch_size"),
        "sequence": (settings, "seq_length"),
    }
    if "tensor_parallel" in settings:
        sizes["tensor"] = (settings.inner("tensor_parallel"), "autotp_size")
    told = {name: (fields, key) for name, (fields, key) in sizes.items() if fields.values.get(key) not in (0, "auto")}
    numbers, places = whole_numbers(told)
    steps, _places = whole_numbers({"rank_batch": (settings, _STEPS)})
    microbatch = numbers.get("microbatch")
    sharding = Sharding.NOTHING
    if zero is not None and "stage" in zero:
        sharding = zero_stage(zero.values["stage"], place=zero.place("stage"))
    return StatedDegrees(
        tensor=numbers.get("tensor"),
        context=numbers.get("context", 1),
        pipeline=numbers.get("pipeline"),
        sharding=sharding,
        microbatch=microbatch,
        global_batch=numbers.get("global_batch"),
        rank_batch=steps["rank_batch"] * microbatch if steps and microbatch else None,
        sequence=numbers.get("sequence"),
        places=places,
    )


def is_deepspeed(text: str, file: str) -> bool:
    """Return whether a text looks like a configuration of DeepSpeed or GPT-NeoX."""
    try:
        fields = read_settings(text, file).fields
    except InputError:
        return False
    return any(name in fields for name in (_STAGES, *_MARKS))


def _is_neox(settings: FileSettings) -> bool:
    return _STAGES in settings.fields or _METHOD in settings.fields


def _interval(settings: FileSettings, *, is_neox: bool) -> int:
    """Return how many entries recompute together; 0 for none."""
    fields = settings.fields
    if is_neox:
        if not fields.flag("checkpoint_activations"):
            return 0
        return fields.integer("checkpoint_num_layers", LAYERS) if "checkpoint_num_layers" in fields else 1
    pipeline = fields.inner(_PIPELINE) if _PIPELINE in fields else None
    if pipeline is None or _INTERVAL not in pipeline:
        return 0
    return pipeline.integer(_INTERVAL, Range(least=0, most=LAYERS.most))


def _neox_ranks(settings: FileSettings, num_layers: int, num_ranks: int, notes: list[str]) -> list[list[str]]:
    """Return the names of the entries of every rank."""
    fields = settings.fields
    method = fields.text(_METHOD) if _METHOD in fields else _NEOX_METHOD
    names = [*_HEAD, *[LAYER] * num_layers, *_TAIL]
    ranks = ranks_by_method(names, method, num_ranks)
    if ranks is None:
        raise fields.error(
            _METHOD,
            method_rule(num_ranks),
            remedy=_("give the plan file of the cut that you run"),
        )
    notes += older_cut_notes(names, method, num_ranks)
    return ranks
