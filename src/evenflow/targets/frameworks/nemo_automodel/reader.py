"""The plan that a recipe of NeMo AutoModel asks for."""

import math

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import FULL, NONE, Plan, Sizes
from evenflow.predict.training import Sharding
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import LAYERS, MICROBATCHES, RANKS
from evenflow.targets.frameworks.nemo_automodel.writer import MICROBATCH, PARTS
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers
from evenflow.targets.target import Baseline, GivenSizes
from evenflow.targets.torch.baseline import asked_name, asked_order, asked_plan, chunks_of
from evenflow.targets.torch.module_names import even_parts, layers_per_part
from evenflow.targets.torch.schedule_names import SINGLE

_SCHEDULE, _CSV, _PER_STAGE = "pp_schedule", "pp_schedule_csv", "layers_per_stage"
_ROUND = "round_virtual_stages_to_pp_multiple"
_KNOWN = (
    *(_SCHEDULE, _CSV, PARTS, MICROBATCH, _PER_STAGE, _ROUND),
    *("pp_batch_size", "pp_seq_len", "pp_recv_buffer_pool", "pp_recv_buffer_pool_slack", "dtype", "loss_fn"),
    *("patch_inner_model", "patch_causal_lm_model", "patch_stage_backward_maybe_with_nosync"),
    "scale_grads_in_schedule",
)


def read(text: str, file: str, given_sizes: GivenSizes) -> Baseline:
    """Return the plan of a recipe.

    Raises:
        InputError: text that is no YAML object, a run without a pipeline, a cut whose layers are not given, or
            settings that NeMo AutoModel refuses.
    """
    top = load_yaml(text, file=file)
    distributed = optional_section(top, "distributed")
    pipeline = optional_section(distributed, "pipeline")
    num_ranks = distributed.integer("pp_size", RANKS) if distributed.values.get("pp_size") is not None else 1
    if num_ranks < 2 and given_sizes.may_be_alone:
        return _alone(distributed, given_sizes)
    if num_ranks < 2:
        rule = _("must be at least 2: without a pipeline there is no plan")
        raise InputError(value=num_ranks, rule=rule, place=distributed.place("pp_size"))
    num_microbatches = _microbatches(top, pipeline)
    parts = _parts(pipeline, num_ranks, given_sizes)
    num_chunks = chunks_of(parts, num_ranks, place=pipeline.place(PARTS))
    sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    schedule = asked_order(pipeline, key=_SCHEDULE, csv_key=_CSV, sizes=sizes, on_a_v=("ZBVZeroBubble",))
    kind, unknown = _recomputed(distributed)
    return Baseline(
        plan=asked_plan(parts, schedule, [(kind,) * count for count in parts]),
        unknown=(*(pipeline.place(key) for key in pipeline.values if key not in _KNOWN), *unknown),
        notes=_recompute_notes(kind),
    )


def stated_in_recipe(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a recipe; raises InputError for text that is no YAML object, and for wrong values."""
    top = load_yaml(text, file=file)
    distributed, scheduler = optional_section(top, "distributed"), optional_section(top, "step_scheduler")
    pipeline = optional_section(distributed, "pipeline")
    numbers, places = whole_numbers(
        {
            "tensor": (distributed, "tp_size"),
            "context": (distributed, "cp_size"),
            "expert": (distributed, "ep_size"),
            "pipeline": (distributed, "pp_size"),
            "data": (distributed, "dp_size"),
            "rank_batch": (scheduler, "local_batch_size"),
            "global_batch": (scheduler, "global_batch_size"),
            "microbatch": (pipeline, MICROBATCH),
        }
    )
    numbers = {"tensor": 1, "context": 1, "expert": 1, "pipeline": 1} | numbers
    if numbers["pipeline"] == 1:
        numbers["microbatch"] = numbers.get("rank_batch", 1)
    strategy = distributed.values.get("strategy", "fsdp2")
    if strategy not in ("fsdp2", "ddp"):
        raise distributed.error("strategy", _("must be fsdp2 or ddp: others are not known"))
    keeps = "reshard_after_forward" in distributed and distributed.values["reshard_after_forward"] is not None
    reshards = distributed.flag("reshard_after_forward") if keeps else numbers["pipeline"] == 1
    shared = Sharding.PARAMETERS if reshards else Sharding.GRADIENTS
    return StatedDegrees(
        tensor=numbers["tensor"],
        context=numbers["context"],
        expert=numbers["expert"],
        pipeline=numbers["pipeline"],
        data=numbers.get("data"),
        sharding=Sharding.NOTHING if strategy == "ddp" else shared,
        sequence_parallel=distributed.flag("sequence_parallel"),
        microbatch=numbers.get("microbatch", 1),
        global_batch=numbers.get("global_batch"),
        rank_batch=numbers.get("rank_batch"),
        places=places,
    )


def _alone(distributed: Fields, sizes: GivenSizes) -> Baseline:
    """Return the plan of a run without a pipeline: all layers on one rank."""
    kind, unknown = _recomputed(distributed)
    layers = sizes.num_layers or 1
    plan = Plan(
        schedule="1f1b",
        num_microbatches=sizes.num_microbatches or 1,
        layers=((layers,),),
        recompute={} if kind == NONE else {kind: ((layers,),)},
    )
    return Baseline(plan=plan, unknown=unknown, notes=_recompute_notes(kind))


def _recomputed(distributed: Fields) -> tuple[str, tuple[str, ...]]:
    """Return the kind of all layers, and the places of settings that no kind means."""
    mode = distributed.values.get("activation_checkpointing", False)
    if mode not in (True, False, None, "full", "selective"):
        raise distributed.error("activation_checkpointing", _("must be true, false, full or selective"))
    unknown = (distributed.place("activation_checkpointing"),) if mode == "selective" else ()
    return (FULL if mode in (True, "full") else NONE), unknown


def _recompute_notes(kind: str) -> tuple[str, ...]:
    return (_("recomputation is taken for that of whole layers"),) if kind == FULL else ()


def is_recipe(text: str, file: str) -> bool:
    """Return whether a text looks like a recipe of NeMo AutoModel with a pipeline."""
    try:
        distributed = optional_section(load_yaml(text, file=file), "distributed")
        return "pp_size" in distributed or _SCHEDULE in optional_section(distributed, "pipeline")
    except InputError:
        return False


def _microbatches(top: Fields, pipeline: Fields) -> int:
    scheduler = optional_section(top, "step_scheduler")
    batch = scheduler.integer("local_batch_size", MICROBATCHES) if "local_batch_size" in scheduler else 1
    size = pipeline.integer(MICROBATCH, MICROBATCHES) if MICROBATCH in pipeline else 1
    if batch % size:
        rule = _("must be a multiple of the {size} of {key}", size=size, key=MICROBATCH)
        raise InputError(value=batch, rule=rule, place=scheduler.place("local_batch_size"))
    return batch // size


def _parts(pipeline: Fields, num_ranks: int, sizes: GivenSizes) -> tuple[int, ...]:
    """Return the layers of every stage."""
    listed = pipeline.values.get(PARTS)
    if listed is not None:
        return layers_per_part(listed, place=pipeline.place(PARTS))
    if sizes.num_layers is None:
        rule = _("must be given, since {file} names only the model", file=pipeline.file)
        raise InputError(rule=rule, place="--layers")
    name = asked_name(pipeline, _SCHEDULE)
    num_parts, key = num_ranks * (1 if name in SINGLE else 2), _SCHEDULE
    if pipeline.values.get(_PER_STAGE) is not None:
        key = _PER_STAGE
        num_parts = _rounded(math.ceil(sizes.num_layers / pipeline.integer(key, LAYERS)), num_ranks, pipeline)
        if num_parts % num_ranks or num_parts == 0 or (num_parts == num_ranks) != (name in SINGLE):
            rule = _(
                "must make a number of stages that {name} has on {num_ranks} ranks", name=name, num_ranks=num_ranks
            )
            raise InputError(value=num_parts, rule=rule, place=pipeline.place(key))
    counts = even_parts(num_layers=sizes.num_layers, num_parts=num_parts, first_less=0, last_less=0)
    if counts is None:
        rule = _("must make no more stages than {num_layers} layers fill", num_layers=sizes.num_layers)
        raise InputError(value=num_parts, rule=rule, place=pipeline.place(key))
    return counts


def _rounded(num_parts: int, num_ranks: int, pipeline: Fields) -> int:
    way = pipeline.values.get(_ROUND)
    if way not in (None, "up", "down"):
        raise pipeline.error(_ROUND, _("must be up or down"))
    whole = num_parts // num_ranks * num_ranks
    if way is None or whole == num_parts:
        return num_parts
    return whole + (num_ranks if way == "up" else 0)
