"""The plan that a MindFormers training YAML asks for."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list, is_integer_table
from evenflow.language import _
from evenflow.model import FULL, Cells, Plan, Sizes, cells
from evenflow.predict.training import Sharding
from evenflow.profiles.cell_lists import RECOMPUTE_LISTS, exclusive_counts, layers_by_cell
from evenflow.profiles.training_file import LAYER_KEYS, training_sizes
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import CHUNKS, LAYERS, SEQUENCE_SPLITS
from evenflow.targets.frameworks.mindformers.module_sets import are_of_modules, sets_of
from evenflow.targets.frameworks.mindformers.recompute_lists import (
    counts_by_cell,
    counts_by_pattern,
    pattern_counts,
)
from evenflow.targets.frameworks.mindformers.swap_reader import swapped_plan, swaps, unread_swap
from evenflow.targets.frameworks.mindformers.values import environment, why_not
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers
from evenflow.targets.target import Baseline, GivenSizes

_SCHEDULERS = {"1f1b": "1f1b", "gpipe": "f-then-b", "seqpipe": "1f1b", "seqvpp": "1f1b"}
_OF_SEQUENCES = ("seqpipe", "seqvpp")
_RECOMPUTE_KEYS = (
    *RECOMPUTE_LISTS,
    "parallel_optimizer_comm_recompute",
    "mp_comm_recompute",
    "recompute_slice_activation",
)
"""Keys that are read, and those that leave the layers of a kind as they are."""
_SECTIONS = ("model", "parallel_config", "parallel", "recompute_config")
_PIPELINE_KEYS = ("pipeline_stage", "micro_batch_num", "seq_split_num")
_PIPELINE_WORDS = ("pipeline", "pp_", "micro_batch", "seq_split", "interleave")


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a training YAML.

    Raises:
        InputError: text that is no YAML object, a size that is neither there nor given, offsets or lists that
            MindFormers refuses, or a setting that no plan can say.
    """
    top = load_yaml(text, file=file)
    check_own_keys(top, _SECTIONS, title="MindFormers")
    found = training_sizes(top)
    model = optional_section(optional_section(top, "model"), "model_config")
    parallel = optional_section(top, "parallel_config")
    recompute = optional_section(top, "recompute_config")
    pipeline = optional_section(optional_section(top, "parallel"), "pipeline_config")
    num_ranks = _needed(found.num_stages, sizes.num_ranks, parallel, "pipeline_stage", "--ranks")
    num_microbatches = _needed(
        found.num_microbatches, sizes.num_microbatches, parallel, "micro_batch_num", "--microbatches"
    )
    layers_key = next((key for key in LAYER_KEYS if key in model), LAYER_KEYS[0])
    num_layers = _needed(found.num_layers, sizes.num_layers, model, layers_key, "--layers")
    splits = parallel.integer("seq_split_num", SEQUENCE_SPLITS) if "seq_split_num" in parallel else 1
    interleaves = pipeline.flag("pipeline_interleave")
    asked = model.integer("pp_interleave_num", CHUNKS) if "pp_interleave_num" in model else 1
    num_chunks = asked if interleaves else 1
    LAYERS.check(num_layers, place=found.layers_place)
    with top.at():
        Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, sequence_splits=splits)
    scheduler = _scheduler(pipeline, interleaves=interleaves, splits=splits)
    layers = layers_by_cell(
        _offsets(model, num_chunks=num_chunks, num_ranks=num_ranks),
        num_layers=num_layers,
        place=model.place("offset"),
        cell=lambda chunk, rank: _("chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
    )
    schedule = _SCHEDULERS[scheduler]
    bare = Plan(
        schedule="interleaved" if schedule == "1f1b" and num_chunks > 1 else schedule,
        num_microbatches=num_microbatches,
        layers=layers,
        sequence_splits=splits,
    )
    unknown = list(_unknown(model, parallel, recompute, pipeline))
    if swaps(top):
        swapped = swapped_plan(bare, top)
        return Baseline(
            plan=swapped.plan,
            unknown=(*unknown, *swapped.unknown),
            notes=(*swapped.notes, *_notes(swapped.plan, {}, unused=asked > num_chunks)),
            place_of_sets=swapped.place_of_sets,
        )
    full = counts_by_cell(recompute, "recompute", layers)
    asked_patterns = recompute.values.get("select_recompute")
    of_modules = isinstance(asked_patterns, Mapping) and are_of_modules(asked_patterns)
    none = cells([[0] * num_ranks] * num_chunks)
    select, select_patterns = (none, ()) if of_modules else pattern_counts(recompute, "select_recompute", layers)
    comm, comm_patterns = pattern_counts(recompute, "select_comm_recompute", layers)
    is_older = top.values.get("use_legacy") is True  # which has none of these names
    if of_modules:
        counts = counts_by_pattern(recompute, "select_recompute", layers)
        kinds = {} if is_older else sets_of(counts, full)
        kinds |= {FULL: full} if any(map(any, full)) else {}
        if is_older:
            unknown.append(recompute.place("select_recompute"))
        if exclusive_counts(full, none, comm).keys() - {FULL}:
            unknown.append(recompute.place("select_comm_recompute"))
    else:
        kinds = dict(exclusive_counts(full, select, comm))
    plan = replace(bare, recompute=kinds)
    return Baseline(
        plan=plan,
        unknown=tuple(unknown),
        notes=(
            *unread_swap(top),
            *_notes(plan, {"select": select_patterns, "comm": comm_patterns}, unused=asked > num_chunks),
        ),
        place_of_sets=recompute.place("select_recompute") if of_modules else "",
    )


def stated_in_yaml(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a training YAML; raises InputError for text that is no YAML object, and wrong values."""
    top = load_yaml(text, file=file)
    split, parallel = optional_section(top, "parallel_config"), optional_section(top, "parallel")
    optimizer = optional_section(parallel, "parallel_optimizer_config")
    model = optional_section(optional_section(top, "model"), "model_config")
    numbers, places = whole_numbers(
        {
            "tensor": (split, "model_parallel"),
            "context": (split, "context_parallel"),
            "expert": (split, "expert_parallel"),
            "pipeline": (split, "pipeline_stage"),
            "data": (split, "data_parallel"),
            "microbatch": (optional_section(top, "runner_config"), "batch_size"),
            "sequence": (model, "seq_length"),
        }
    )
    shared = Sharding.GRADIENTS if optimizer.flag("gradient_accumulation_shard") else Sharding.OPTIMIZER
    has_sharing = parallel.values.get("enable_parallel_optimizer") is not None
    return StatedDegrees(
        tensor=numbers.get("tensor"),
        context=numbers.get("context", 1),
        expert=numbers.get("expert", 1),
        pipeline=numbers.get("pipeline"),
        data=numbers.get("data"),
        sharding=(shared if parallel.flag("enable_parallel_optimizer") else Sharding.NOTHING) if has_sharing else None,
        sequence_parallel=split.flag("use_seq_parallel"),
        microbatch=numbers.get("microbatch"),
        sequence=numbers.get("sequence"),
        places=places,
    )


def is_training_yaml(text: str, file: str) -> bool:
    """Return whether a text looks like a training YAML of MindFormers on a static graph."""
    try:
        top = load_yaml(text, file=file)
        parallel = optional_section(top, "parallel_config")
        model = optional_section(top, "model")
    except InputError:
        return False
    return "pipeline_stage" in parallel or "model_config" in model


def _needed(found: int | None, given: int | None, fields: Fields, key: str, option: str) -> int:
    size = given if found is None else found
    if size is None:
        raise InputError(
            rule=_("must have the field {key!r}", key=key),
            place=fields.place(),
            remedy=_("add it, or give {option}", option=option),
        )
    return size


def _scheduler(pipeline: Fields, *, interleaves: bool, splits: int) -> str:
    """Return the scheduler, refusing what MindSpore refuses."""
    scheduler = pipeline.values.get("pipeline_scheduler", "1f1b")
    of_sizes = [name for name in _SCHEDULERS if (name in _OF_SEQUENCES) == (splits > 1)]
    allowed = [name for name in of_sizes if interleaves or name == "1f1b"]
    if scheduler not in allowed:
        raise pipeline.error(
            "pipeline_scheduler",
            _("must be {names} with this pipeline_interleave and seq_split_num", names=", ".join(allowed))
            if allowed
            else _("must be seqpipe or seqvpp, with pipeline_interleave, where sequences are split"),
        )
    return str(scheduler)


def _offsets(model: Fields, *, num_chunks: int, num_ranks: int) -> Cells:
    """Return the offset of every cell; the one row of a flat list is for every chunk."""
    value = model.values.get("offset", 0)
    if value is None or value == 0:
        return cells([[0] * num_ranks] * num_chunks)
    rows = [value] * num_chunks if is_integer_list(value) else value
    if is_integer_table(rows) and len(rows) == num_chunks and all(len(row) == num_ranks for row in rows):
        return cells(rows)
    rule = _(
        "must be 0, a list of {num_ranks} integers, or such a list for each of the {num_chunks} chunks",
        num_ranks=num_ranks,
        num_chunks=num_chunks,
    )
    raise model.error("offset", rule)


def _unknown(model: Fields, parallel: Fields, recompute: Fields, pipeline: Fields) -> Iterable[str]:
    """Yield the places of keys that decide something of a plan and are not read."""
    for key in model.values:
        if key.startswith(("pp_", "pipeline")) and key != "pp_interleave_num":
            yield model.place(key)
    for key in parallel.values:
        if any(word in key for word in _PIPELINE_WORDS) and key not in _PIPELINE_KEYS:
            yield parallel.place(key)
    for key, value in recompute.values.items():
        if key not in _RECOMPUTE_KEYS and value:
            yield recompute.place(key)
    for key in pipeline.values:
        if key not in ("pipeline_interleave", "pipeline_scheduler"):
            yield pipeline.place(key)


def _notes(plan: Plan, patterns: dict[str, tuple[str, ...]], *, unused: bool) -> Iterable[str]:
    if unused:
        yield _("pp_interleave_num is not used without pipeline_interleave: one chunk for each rank")
    for kind, names in patterns.items():
        if names:
            yield _("{kind} recompute is of the operators {names}", kind=kind, names=", ".join(names))
    if plan.schedule == "interleaved":
        less = replace(plan, schedule="interleaved-less-memory")
        for name, value in environment(less).items():
            setting, order = f"{name}={value}", less.schedule
            yield _("with the environment variable {setting} the order is {order}", setting=setting, order=order)
    refused = why_not(plan)
    if refused is not None:
        yield _("MindFormers refuses this plan: {reason}", reason=str(refused))
