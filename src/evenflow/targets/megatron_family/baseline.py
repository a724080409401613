"""The plan that the arguments of a Megatron-LM run ask for."""

from collections.abc import Iterable, Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, SELECT, Cells, Groups, MovedShare, Plan, segment_kind
from evenflow.model.plan import cells
from evenflow.predict.training import (
    MOVED_MODULES,
    MOVES,
    RECOMPUTE_MODULES,
    SET_MODULES,
    is_possible_set,
    moved_chain,
    set_kind,
)
from evenflow.ranges import DEVICES, LAYERS, MEMORY_BYTES, MICROBATCHES, TRAINED_SIZE, Range
from evenflow.schedule import group_allowed
from evenflow.targets.megatron_family.arguments import KNOWN, Arguments, flag_name, is_printed, printed_arguments
from evenflow.targets.megatron_family.even_cuts import (
    CHUNK_COUNT,
    EMBEDDING,
    FIRST,
    LAST,
    LOSS,
    STAGE_LAYERS,
    STAGES,
    even_cut,
)
from evenflow.targets.megatron_family.flag_keys import flag_key_arguments, has_flag_keys
from evenflow.targets.megatron_family.flags import PAIRED
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.megatron_family.old_checkpointing import old_checkpointing
from evenflow.targets.megatron_family.settings import DELAYED, FB_OVERLAP, PAIRS, RELEASES
from evenflow.targets.megatron_family.shell_arguments import shell_arguments
from evenflow.targets.target import Baseline, GivenSizes

LAYOUT = "pipeline_model_parallel_layout"
GROUP = "microbatch_group_size_per_vp_stage"
SHARE, KEPT = "activation_offload_fraction", "delta_offload_bytes_across_pp_ranks"


def is_run(text: str, file: str) -> bool:
    """Return whether a text looks like flags of Megatron-LM, or like arguments that it printed."""
    return "--pipeline-model-parallel-size" in text or is_printed(text)


def read_run(text: str, file: str, sizes: GivenSizes, *, in_pairs: str = "") -> Baseline:
    """Return the plan of a training script, of a file with flags, or of the arguments that a run printed."""
    return baseline(run_arguments(text, file), sizes, in_pairs=in_pairs)


def run_arguments(text: str, file: str, *, known: frozenset[str] = KNOWN) -> Arguments:
    """Return the arguments of a training script, of a file with flags, of flags as YAML keys, or that a run printed."""
    if is_printed(text):
        return printed_arguments(text, file=file, known=known)
    if has_flag_keys(text):
        return flag_key_arguments(text, file)
    return shell_arguments(text, file=file, known=known)


def baseline(arguments: Arguments, sizes: GivenSizes, *, in_pairs: str = "", has_groups: bool = True) -> Baseline:
    """Return the plan that arguments ask for, of a framework whose switch `in_pairs` makes forwards run beside
    backwards; empty: it has none. Without `has_groups` several chunks run in an order without groups of microbatches.

    Raises:
        InputError: something that makes the plan is missing, Megatron-LM would refuse it, or it is against `sizes`.
    """
    num_ranks = arguments.num_ranks(sizes.num_ranks)
    _check_given(arguments, "pipeline_model_parallel_size", num_ranks, sizes.num_ranks)
    notes: list[str] = []
    layers = _layers(arguments, num_ranks, sizes, notes)
    num_microbatches = _num_microbatches(arguments, num_ranks, sizes, notes)
    recompute, unknown = _recompute(arguments, layers, notes)
    releases = in_pairs == PAIRS and arguments.switch(RELEASES)
    own = {PAIRS, RELEASES, *(() if releases else (DELAYED,))} if in_pairs == PAIRS else {in_pairs}
    others = {PAIRS, DELAYED, RELEASES, FB_OVERLAP} - own
    unknown = (*unknown, *(arguments.place(key) for key in sorted(others) if arguments.switch(key)))
    schedule = _schedule(arguments, in_pairs, num_ranks=num_ranks, num_chunks=len(layers))
    group_size = arguments.integer(GROUP, MICROBATCHES) if len(layers) > 1 else None
    plan = Plan(
        schedule=schedule,
        num_microbatches=num_microbatches,
        layers=layers,
        mtp_layers=sizes.mtp_layers,
        recompute=recompute,
        moved_share=_moved_share(arguments, recompute),
        group_size=None if group_size == num_ranks else group_size,
        delays_weights=_delays(arguments, in_pairs) if schedule in PAIRED else None,
        releases_attention=releases,
    )
    if len(layers) > 1 and num_ranks == 1:
        raise arguments.error("pipeline_model_parallel_size", _("must be at least 2 with several chunks"))
    if len(layers) > 1 and has_groups and not group_allowed(Groups.MEGATRON, plan.group_size, plan.sizes):
        raise InputError(
            value=group_size or num_ranks,
            rule=_(
                "must be from {ranks} to the {count} microbatches, with a remainder of none or at least {ranks}",
                ranks=num_ranks,
                count=num_microbatches,
            ),
            place=arguments.place(GROUP),
        )
    return Baseline(plan=plan, unknown=(*arguments.unknown, *unknown), notes=tuple(notes))


def _delays(arguments: Arguments, in_pairs: str) -> bool:
    """Return whether pairs delay weight gradients, as far as that is understood: MindSpeed's always do."""
    return in_pairs != PAIRS or (arguments.switch(DELAYED) and not arguments.switch(RELEASES))


def _schedule(arguments: Arguments, in_pairs: str, *, num_ranks: int, num_chunks: int) -> str:
    """Return the schedule family, with or without forwards beside backwards."""
    if not (in_pairs and arguments.switch(in_pairs)):
        for key in (DELAYED, RELEASES) if in_pairs == PAIRS else ():
            if arguments.switch(key):
                raise arguments.error(key, _("must be off without {flag}", flag=flag_name(PAIRS)))
        return "interleaved" if num_chunks > 1 else "1f1b"
    if num_chunks == 1 and num_ranks > 1:
        raise arguments.error(in_pairs, _("must be off with one chunk on several ranks"))
    if in_pairs == PAIRS:
        _check_pairs(arguments)
    return PAIRED[num_chunks > 1]


def _check_pairs(arguments: Arguments) -> None:
    """Raise InputError for what Megatron-LM refuses beside pairs. [`TransformerConfig.__post_init__`]"""
    if arguments.choice("recompute_granularity", ("full", "selective")) == "full":
        raise arguments.error(PAIRS, _("must be off with full recomputation"))
    if "moe" in (arguments.texts("recompute_modules") or ()):
        raise arguments.error(PAIRS, _("must be off where the module moe is computed again"))
    if arguments.switch("moe_shared_expert_overlap"):
        raise arguments.error(PAIRS, _("must be off where shared experts have an overlap of their own"))
    if (arguments.integer("mtp_num_layers", Range(least=0, most=LAYERS.most)) or 0) > 1:
        raise arguments.error(PAIRS, _("must be off with several layers of multi-token prediction"))
    if arguments.values.get("moe_token_dispatcher_type") == "allgather":
        raise arguments.error(PAIRS, _("must be off with the token dispatcher allgather"))
    if arguments.values.get("expert_model_parallel_size") == 1:
        raise arguments.error(PAIRS, _("must be off where all experts are on every device"))


def _layers(arguments: Arguments, num_ranks: int, sizes: GivenSizes, notes: list[str]) -> Cells:
    """Return the layers of all cells, with those of multi-token prediction where the network has them."""
    num_layers = arguments.integer("num_layers", LAYERS)
    layout = arguments.values.get(LAYOUT)
    if layout is not None:
        for key in (STAGE_LAYERS, STAGES, FIRST, LAST, EMBEDDING, LOSS):
            if arguments.values.get(key):
                raise arguments.error(key, _("must not be given beside a layout"))
        parsed = parse_layout(layout, place=arguments.place(LAYOUT))
        layers = parsed.cells(num_ranks, place=arguments.place(LAYOUT))
        if num_layers is not None and num_layers != sum(parsed.layers):
            rule = _("must be {count}, the layers of the layout", count=sum(parsed.layers))
            raise arguments.error("num_layers", rule)
        chunks = arguments.values.get(CHUNK_COUNT)
        if chunks is not None and chunks != len(layers):
            raise arguments.error(CHUNK_COUNT, _("must be {chunks}, as in the layout", chunks=len(layers)))
        whole = parsed.cells(num_ranks, place=arguments.place(LAYOUT), with_mtp=sizes.mtp_layers > 0)
        if not any(parsed.mtp_layers):
            whole = _with_last(layers, sizes.mtp_layers)
        if any(parsed.mtp_layers[:-1]) and not sizes.mtp_layers:
            notes.append(
                _("layers of multi-token prediction are in another stage than the loss; the plan has them last")
            )
    else:
        num_layers = num_layers or sizes.num_layers
        if num_layers is None:
            remedy = _("give the layers of the network")
            raise InputError(rule=_("must be given"), place=arguments.place("num_layers"), remedy=remedy)
        layers = even_cut(arguments, num_layers=num_layers, num_ranks=num_ranks)
        whole = _with_last(layers, sizes.mtp_layers)
    _check_given(arguments, "num_layers", sum(map(sum, layers)), sizes.num_layers)
    if sizes.mtp_layers and (told := mtp_layers(arguments)) != sizes.mtp_layers:
        rule = _("must be {count}, the layers of multi-token prediction of the model", count=sizes.mtp_layers)
        raise InputError(value=told, rule=rule, place=arguments.place("mtp_num_layers"))
    return whole


def _with_last(layers: Cells, more: int) -> Cells:
    """Return the table with `more` layers in its last stage."""
    *others, last = layers
    return (*others, (*last[:-1], last[-1] + more))


def mtp_layers(arguments: Arguments) -> int:
    """Return the layers of multi-token prediction of a run: by number, or as the m of a layout."""
    number = arguments.integer("mtp_num_layers", Range(least=0, most=LAYERS.most))
    layout = arguments.values.get(LAYOUT)
    if number is not None or layout is None:
        return number or 0
    return sum(parse_layout(layout, place=arguments.place(LAYOUT)).mtp_layers)


def _num_microbatches(arguments: Arguments, num_ranks: int, sizes: GivenSizes, notes: list[str]) -> int:
    if "rampup_batch_size" in arguments.values:
        notes.append(_("the batch grows during the training; the plan has the full one"))
    if "global_batch_size" not in arguments.values and "micro_batch_size" in arguments.values:
        notes.append(_("there is no --global-batch-size, so that a step has one microbatch"))
    told = told_microbatches(arguments, num_ranks)
    if told is not None:
        _check_given(arguments, "global_batch_size", told, sizes.num_microbatches)
        return told
    if sizes.num_microbatches is not None:
        return sizes.num_microbatches
    missing = "world_size" if "micro_batch_size" in arguments.values else "micro_batch_size"
    raise InputError(
        value=arguments.values.get(missing),
        rule=_("must be given, for the number of microbatches"),
        place=arguments.place(missing),
        remedy=_("give the number of microbatches"),
    )


def told_microbatches(arguments: Arguments, num_ranks: int) -> int | None:
    """Return the microbatches of a step: the whole batch by that of a microbatch on all replicas; None if not told."""
    micro = arguments.integer("micro_batch_size", TRAINED_SIZE)
    whole = arguments.integer("global_batch_size", TRAINED_SIZE)
    if micro is None or whole is None:
        return None if micro is None else 1
    replicas = data_parallel_size(arguments, num_ranks)
    if replicas is None:
        return None
    if whole % (micro * replicas):
        rule = _("must be a multiple of {micro} x {replicas} replicas", micro=micro, replicas=replicas)
        raise arguments.error("global_batch_size", rule)
    MICROBATCHES.check(whole // (micro * replicas), place=arguments.place("global_batch_size"))
    return whole // (micro * replicas)


def data_parallel_size(arguments: Arguments, num_ranks: int) -> int | None:
    """Return the data-parallel size; None where the number of devices is not told."""
    replicas = arguments.integer("data_parallel_size", DEVICES)
    if replicas is not None:
        return replicas
    world = arguments.integer("world_size", DEVICES)
    nodes, each = arguments.values.get("nnodes", 1), arguments.values.get("nproc_per_node")
    if world is None and nodes in DEVICES and each in DEVICES:
        world = int(str(nodes)) * int(str(each))
    if world is None:
        return None
    tensor = arguments.integer("tensor_model_parallel_size", DEVICES) or 1
    context = arguments.integer("context_parallel_size", DEVICES) or 1
    context *= arguments.integer("ds_sequence_parallel_size", DEVICES) or 1
    if world % (tensor * context * num_ranks):
        raise InputError(
            value=world,
            rule=_("must be a multiple of {size}, the devices of one replica", size=tensor * context * num_ranks),
            place=_("{file}: number of devices", file=arguments.file),
        )
    return world // (tensor * context * num_ranks)


def _recompute(arguments: Arguments, layers: Cells, notes: list[str]) -> tuple[Mapping[str, Cells], tuple[str, ...]]:
    """Return the recomputation of every cell, and the modules under it that no kind stands for."""
    granularity = arguments.choice("recompute_granularity", ("full", "selective"))
    if arguments.switch("recompute_activations"):
        granularity = "selective"
    old = old_checkpointing(arguments)
    if granularity is not None and old is not None:
        raise arguments.error(old.key, _("must not be given beside --recompute-granularity"))
    moved = _moved(arguments)
    if granularity is None:
        if old is None:
            return _under_set((), moved, layers, arguments)
        notes.append(_("{flag} is a flag of Megatron-LM 2, which later ones refuse", flag=flag_name(old.key)))
        _note_distributed(arguments, notes)
        return full_recomputation(old.method, old.number, layers, notes), _not_moved(arguments, moved)
    if granularity == "selective":
        modules = arguments.texts("recompute_modules") or ("core_attn",)
        place = arguments.place("recompute_modules")
        unknown = tuple(f"{place}: {module}" for module in modules if module not in RECOMPUTE_MODULES)
        known = tuple(module for module in RECOMPUTE_MODULES if module in modules)
        if known == ("core_attn",) and not moved:
            notes.append(_("the recomputation of core_attn is the kind select"))
            return {SELECT: layers}, unknown
        recompute, conflicts = _under_set(known, moved, layers, arguments)
        return recompute, (*unknown, *conflicts)
    method = arguments.choice("recompute_method", ("uniform", "block"))
    within = Range(least=0 if method == "block" else 1, most=LAYERS.most)  # in groups of none Megatron-LM never ends
    number = arguments.integer("recompute_num_layers", within)
    if method is None or number is None:
        key = "recompute_method" if method is None else "recompute_num_layers"
        raise arguments.error(key, _("must be given with full recomputation"))
    _note_distributed(arguments, notes)
    return full_recomputation(method, number, layers, notes), _not_moved(arguments, moved)


def _moved(arguments: Arguments) -> tuple[str, ...]:
    """Return the modules whose inputs move to the host, as they are in a set; those that no set has too."""
    if not arguments.switch("fine_grained_activation_offloading") or arguments.share(SHARE) == 0:
        return ()
    modules = arguments.texts("offload_modules")
    if not modules:
        rule = _("must be given with {flag}", flag="--fine-grained-activation-offloading")
        raise arguments.error("offload_modules", rule)
    if "attn_proj" in modules and "core_attn" not in modules:
        raise arguments.error("offload_modules", _("must have core_attn with attn_proj, whose input that keeps"))
    others = tuple(module for module in modules if module not in MOVED_MODULES)
    return tuple(f"{MOVES}{module}" for module in (*MOVED_MODULES, *others) if module in modules)


def _moved_share(arguments: Arguments, recompute: Mapping[str, Cells]) -> MovedShare | None:
    """Return the share of the modules of every cell that moves, and what further ranks keep, of a run that moves some.

    None where all of them move.
    """
    share, kept = arguments.share(SHARE), arguments.integer(KEPT, MEMORY_BYTES) or 0
    share = 1.0 if share is None else share
    moved = next((kind for kind in recompute if moved_chain(kind)), None)
    return None if moved is None or (share == 1 and not kept) else MovedShare(kind=moved, share=share, kept_bytes=kept)


def _not_moved(arguments: Arguments, moved: Iterable[str]) -> tuple[str, ...]:
    """Return modules that a plan does not move, with their place."""
    return tuple(f"{arguments.place('offload_modules')}: {module.removeprefix(MOVES)}" for module in moved)


def _under_set(
    again: tuple[str, ...], moved: tuple[str, ...], layers: Cells, arguments: Arguments
) -> tuple[Mapping[str, Cells], tuple[str, ...]]:
    """Return all layers under a set of modules, and what moves of which no set can be, or not beside the others."""
    core, out = f"{MOVES}core_attn", f"{MOVES}attn_proj"
    kept = tuple(
        module
        for module in moved
        if module in SET_MODULES and is_possible_set((*again, *((core, out) if module == out else (module,))))
    )
    unknown = _not_moved(arguments, (module for module in moved if module not in kept))
    return {set_kind((*again, *kept)): layers} if again or kept else {}, unknown


def full_recomputation(method: str, number: int, layers: Cells, notes: list[str]) -> Mapping[str, Cells]:
    """Return full recomputation of the first `number` layers of every cell, or of all in segments of `number`."""
    if number == 0:
        return {}
    if method == "block":
        return {FULL: cells([[min(number, count) for count in row] for row in layers])}
    return {segment_kind(number) if number > 1 else FULL: layers}


def _note_distributed(arguments: Arguments, notes: list[str]) -> None:
    if arguments.switch("distribute_saved_activations") or arguments.switch("distribute_checkpointed_activations"):
        notes.append(_("the plan does not know that the inputs of recomputed layers are distributed"))


def _check_given(arguments: Arguments, key: str, found: int, given: int | None) -> None:
    """Raise InputError where the file says something else than the user."""
    if given is not None and given != found:
        rule = _("must give {given}, as asked for", given=given)
        raise InputError(value=found, rule=rule, place=arguments.place(key))
