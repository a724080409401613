"""The plan that settings of torchtitan ask for."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import NONE, Plan, Sizes
from evenflow.profiles.yaml_file import optional_section
from evenflow.ranges import LAYERS, MICROBATCHES, RANKS, Range
from evenflow.schedule import schedule_of
from evenflow.targets.frameworks.torchtitan.checkpointing import recomputed_layers
from evenflow.targets.frameworks.torchtitan.settings_file import counts_tokens, settings_of_file
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.target import Baseline, GivenSizes
from evenflow.targets.torch.baseline import asked_name, asked_order, asked_plan, chunks_of
from evenflow.targets.torch.module_names import even_parts, layers_per_part
from evenflow.targets.torch.schedule_names import ON_A_V, SINGLE

_SCHEDULE, _CSV = "pipeline_parallel_schedule", "pipeline_parallel_schedule_csv"
_DEGREE, _PARTS = "pipeline_parallel_degree", "module_fqns_per_model_part"
_PER_STAGE = "pipeline_parallel_layers_per_stage"
_FIRST_LESS, _LAST_LESS = "pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers"
_MICROBATCH, _COUNT = "pipeline_parallel_microbatch_size", "num_pp_microbatches"
_KNOWN = (
    _SCHEDULE,
    _CSV,
    _DEGREE,
    _PARTS,
    _PER_STAGE,
    _FIRST_LESS,
    _LAST_LESS,
    _MICROBATCH,
    _COUNT,
    "pipeline_parallel_expert_parallel_overlap",
)
_ALL_ON_HOST = "enable_cpu_offload"
"""Of parameters and their state."""
_LESS = Range(least=0, most=LAYERS.most)


def read(text: str, file: str, given_sizes: GivenSizes) -> Baseline:
    """Return the plan of a TOML file, a Python file that makes a configuration, or a saved one.

    Raises:
        InputError: text that is neither, a run without a pipeline, a cut whose layers are neither there nor given, or
            settings that torchtitan refuses.
    """
    top = settings_of_file(text, file)
    check_own_keys(top, ("parallelism", "training", "model", "job"), title="torchtitan")
    parallelism = optional_section(top, "parallelism")
    num_ranks = parallelism.integer(_DEGREE, RANKS) if _DEGREE in parallelism else given_sizes.num_ranks or 1
    if num_ranks < 2 and given_sizes.may_be_alone:
        return _alone(top, given_sizes)
    if num_ranks < 2:
        raise InputError(
            value=num_ranks,
            rule=_("must be at least 2: without a pipeline there is no plan"),
            place=parallelism.place(_DEGREE),
        )
    num_microbatches = _microbatches(top, parallelism)
    parts = _parts(top, parallelism, asked_name(parallelism, _SCHEDULE), num_ranks, given_sizes)
    num_chunks = chunks_of(parts, num_ranks, place=parallelism.place(_PARTS))
    sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    schedule = asked_order(parallelism, key=_SCHEDULE, csv_key=_CSV, sizes=sizes, on_a_v=ON_A_V)
    recomputed = recomputed_layers(top, parts, schedule)
    return Baseline(
        plan=asked_plan(parts, schedule, recomputed.kinds),
        unknown=(
            *(parallelism.place(key) for key in parallelism.values if key.startswith("pipeline") and key not in _KNOWN),
            *recomputed.unknown,
            *_moved(top),
        ),
        notes=(*recomputed.notes, *_python_notes(file)),
        place_of_sets=recomputed.place_of_sets,
    )


def _python_notes(file: str) -> tuple[str, ...]:
    if not file.endswith(".py"):
        return ()
    return (_("the file was read without running it: what functions of other files set is not known"),)


def _alone(top: Fields, sizes: GivenSizes) -> Baseline:
    """Return the plan of a run without a pipeline: all layers on one rank, however many microbatches are given."""
    parts = (_num_layers(top, sizes),)
    plan = Plan(schedule="1f1b", num_microbatches=sizes.num_microbatches or 1, layers=(parts,))
    recomputed = recomputed_layers(top, parts, schedule_of(plan))
    counts = Counter(recomputed.kinds[0])
    recompute = {kind: ((count,),) for kind, count in counts.items() if kind != NONE}
    return Baseline(
        plan=replace(plan, recompute=recompute),
        unknown=(*recomputed.unknown, *_moved(top)),
        notes=(*recomputed.notes, *_python_notes(top.file)),
        place_of_sets=recomputed.place_of_sets,
    )


def _moved(top: Fields) -> Iterator[str]:
    """Yield the place of a setting that keeps parameters and their state on the host."""
    training = optional_section(top, "training")
    if training.values.get(_ALL_ON_HOST):
        yield training.place(_ALL_ON_HOST)


def _microbatches(top: Fields, parallelism: Fields) -> int:
    if _COUNT in parallelism:
        return parallelism.integer(_COUNT, MICROBATCHES)
    training = optional_section(top, "training")
    if counts_tokens(top):
        return 1
    batch = training.integer("local_batch_size", MICROBATCHES) if "local_batch_size" in training else 8
    size = parallelism.integer(_MICROBATCH, MICROBATCHES) if _MICROBATCH in parallelism else 1
    if batch % size:
        raise InputError(
            value=batch,
            rule=_("must be a multiple of the {size} of {key}", size=size, key=_MICROBATCH),
            place=training.place("local_batch_size"),
        )
    return batch // size


def _parts(top: Fields, parallelism: Fields, name: str, num_ranks: int, sizes: GivenSizes) -> tuple[int, ...]:
    """Return the layers of every stage."""
    listed = parallelism.values.get(_PARTS)
    if listed is not None:
        return layers_per_part(listed, place=parallelism.place(_PARTS))
    num_layers = _num_layers(top, sizes)
    first, last = (parallelism.integer(key, _LESS) if key in parallelism else 1 for key in (_FIRST_LESS, _LAST_LESS))
    num_parts = num_ranks * (1 if name in SINGLE else 2)
    key = _SCHEDULE
    if parallelism.values.get(_PER_STAGE) is not None:
        key = _PER_STAGE
        num_parts = math.ceil((num_layers + first + last) / parallelism.integer(key, LAYERS))
        if num_parts % num_ranks or (num_parts == num_ranks) != (name in SINGLE):
            raise InputError(
                value=num_parts,
                rule=_(
                    "must make a number of stages that {name} has on {num_ranks} ranks", name=name, num_ranks=num_ranks
                ),
                place=parallelism.place(key),
            )
    counts = even_parts(num_layers=num_layers, num_parts=num_parts, first_less=first, last_less=last)
    if counts is None:
        raise InputError(
            value=num_parts,
            rule=_("must make no more stages than {num_layers} layers fill", num_layers=num_layers),
            place=parallelism.place(key),
        )
    return counts


def _num_layers(top: Fields, sizes: GivenSizes) -> int:
    model = optional_section(optional_section(top, "model_spec"), "model")
    layers = model.values.get("layers")
    found = len(layers) if isinstance(layers, list) else sizes.num_layers
    if found is None:
        raise InputError(rule=_("must be given, since {file} names only the model", file=top.file), place="--layers")
    LAYERS.check(found, place=model.place("layers") if isinstance(layers, list) else "--layers")
    return found
