"""The plan in the overrides of a Primus module: Megatron's settings, with keys of Primus' own."""

import re
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer, is_integer_list
from evenflow.language import _
from evenflow.model import FULL, Plan, looped
from evenflow.model.plan import cells
from evenflow.targets.frameworks.primus import formatted_zbv
from evenflow.targets.megatron_family.arguments import OF_DEGREES, arguments_of
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.flags import PAIRED
from evenflow.targets.megatron_family.layout import format_layout
from evenflow.targets.megatron_family.settings import PAIRS, module_names
from evenflow.targets.stages import stages_of
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes

LAYER_IDS = "recompute_layer_ids"
SPLIT = "decoder_pipeline_manual_split_list"
OWN_RUNTIME, ALGORITHM, OLD_RUNTIME = "patch_primus_pipeline", "pp_algorithm", "patch_zero_bubble"
OFFLOAD, OFFLOAD_OPS = "offload", "offload_ops"
"""Whether inputs of operators of the first chunks wait on the host, and of which; Primus has it for attention alone."""
_OWN_KEYS = (LAYER_IDS, SPLIT, OWN_RUNTIME, ALGORITHM, OLD_RUNTIME, OFFLOAD, OFFLOAD_OPS)
_OLD_OFFLOAD = "cpu_offload"
"""What moves activations under schedules of `patch_zero_bubble`."""
ON_A_V = (formatted_zbv.ALGORITHM, "v-half", "v-min")
"""Primus's own algorithms with two chunks of each rank on a V."""
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_CHUNKS = "num_virtual_stages_per_pipeline_rank"
_DEFAULT_ALGORITHM = "1f1b-interleaved"
_VARIABLE = re.compile(r"\$\{(\w+):([^{}]*)\}")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None, "": None}


def read_overrides(section: Fields, sizes: GivenSizes) -> Baseline:
    """Return the plan that a section of overrides asks for.

    A variable of the environment, ``${PRIMUS_PP:8}``, has its default.

    Raises:
        InputError: as `baseline` does; keys that Primus refuses together, and an order of work that no family has.
    """
    notes: list[str] = []
    fields = replace(section, values={key: _resolved(key, value, notes) for key, value in section.values.items()})
    settings = {key: value for key, value in fields.values.items() if key not in _OWN_KEYS}
    on_v = fields.values.get(OWN_RUNTIME) is True and fields.values.get(ALGORITHM) == formatted_zbv.ALGORITHM
    for key in (SPLIT, *_ENDS) if on_v else ():
        if fields.values.get(key) is not None:
            rule = _("must be null beside {algorithm}: its stages are on a V", algorithm=formatted_zbv.ALGORITHM)
            raise fields.error(key, rule)
    if fields.values.get(SPLIT) is not None:
        settings |= {LAYOUT: _layout_of_split(fields, sizes), _CHUNKS: None}
    if settings.get("global_batch_size") is None:  # which a preset has, unlike Megatron-LM
        settings["micro_batch_size"] = None
    ids = _layer_ids(fields)
    if ids is not None:
        settings |= {"recompute_granularity": None, "recompute_num_layers": None}
    arguments = arguments_of(settings, file=fields.file, lines=fields.lines)
    found = baseline(arguments, sizes, in_pairs=PAIRS, has_groups=not on_v)
    plan = found.plan if ids is None else _recomputing(found.plan, ids, fields, notes)
    unknown = [*found.unknown, *((fields.place(_OLD_OFFLOAD),) if fields.values.get(_OLD_OFFLOAD) else ())]
    moves = _moves_attention(fields, unknown, on_v=on_v)
    if moves:
        notes += offload_notes()
    return replace(
        found,
        plan=_scheduled(plan, fields, moves=moves),
        unknown=tuple(unknown),
        notes=(*notes, *found.notes),
        place_of_sets=fields.place(OFFLOAD) if moves else "",
    )


def offload_notes() -> tuple[str, ...]:
    """Return what to know where attention's inputs move."""
    return (
        _("the input of each first chunk moves too, which the plan keeps on the device"),
        _("set USE_PINNED_OFFLOAD=1 in the environment: otherwise a device waits for every copy"),
    )


def _moves_attention(fields: Fields, unknown: list[str], *, on_v: bool) -> bool:
    """Return whether attention's inputs of the first chunks move; names what else does as not understood."""
    if not fields.values.get(OFFLOAD):
        return False
    if fields.values.get(OWN_RUNTIME) is not True:  # without it the key does nothing
        unknown.append(fields.place(OFFLOAD))
        return False
    if fields.values.get(ALGORITHM, _DEFAULT_ALGORITHM) not in ON_A_V:
        raise fields.error(OFFLOAD, _("must be false: only {names} move anything", names=", ".join(ON_A_V)))
    operators = module_names(fields.values.get(OFFLOAD_OPS))
    unknown += [f"{fields.place(OFFLOAD_OPS)}: {name}" for name in operators if name != "attn"]
    return on_v and "attn" in operators


def stated_in_overrides(section: Fields) -> StatedDegrees:
    """Return the degrees in a section of overrides; raises InputError as `stated_degrees` does."""
    values = {key: _resolved(key, value, []) for key, value in section.values.items()}
    return stated_degrees(
        arguments_of(values, file=section.file, lines=section.lines, known=OF_DEGREES), has_recipe=True
    )


def _resolved(key: str, value: object, notes: list[str]) -> object:
    """Return the value of a key that is read, with the default of a variable; numbers are numbers."""
    variable = _VARIABLE.fullmatch(value) if isinstance(value, str) else None
    if variable is None or key not in (*_OWN_KEYS, *OF_DEGREES):
        return value
    name, default = variable.groups()
    notes.append(_("{key} is taken to be {value}, the default of {name}", key=key, value=default, name=name))
    if default in _WORDS:
        return _WORDS[default]
    return int(default) if re.fullmatch(r"-?[0-9]{1,15}", default) else default


def _layout_of_split(fields: Fields, sizes: GivenSizes) -> str:
    """Return the layout of a list that has the chunks of a rank one after the other, then those of the next rank.

    [Primus, `validate_manual_split`]
    """
    split, ranks = fields.values[SPLIT], fields.values.get("pipeline_model_parallel_size", sizes.num_ranks)
    chunks = fields.values.get(_CHUNKS) or 1
    if not is_integer(ranks) or not is_integer(chunks) or ranks < 1:
        key = "pipeline_model_parallel_size" if not is_integer(ranks) or ranks < 1 else _CHUNKS
        raise fields.error(key, _("must be a whole number above zero"))
    if not is_integer_list(split) or min(split, default=0) < 1 or len(split) != ranks * chunks:
        rule = _("must have a number above zero for each of the {count} chunks of all ranks", count=ranks * chunks)
        raise fields.error(SPLIT, rule)
    return format_layout(cells([split[chunk::chunks] for chunk in range(chunks)]))


def _layer_ids(fields: Fields) -> tuple[int, ...] | None:
    """Return the ids of recomputed layers, a list or a text such as ``0,1,5``; None where there are none."""
    value = fields.values.get(LAYER_IDS)
    if value is None:
        return None
    pieces = [piece for piece in re.split(r"[ ,]+", value) if piece] if isinstance(value, str) else value
    if isinstance(value, str) and isinstance(pieces, list):
        pieces = [int(piece) if re.fullmatch(r"[0-9]{1,15}", piece) else piece for piece in pieces]
    if not is_integer_list(pieces) or not pieces:
        raise fields.error(LAYER_IDS, _("must be a list of ids of layers, from 0"))
    if fields.values.get("recompute_granularity") != "full":
        raise fields.error("recompute_granularity", _("must be full beside {key}", key=LAYER_IDS))
    if fields.values.get("recompute_method") is not None:
        raise fields.error("recompute_method", _("must be null beside {key}", key=LAYER_IDS))
    return tuple(sorted(set(pieces)))


def _recomputing(plan: Plan, ids: tuple[int, ...], fields: Fields, notes: list[str]) -> Plan:
    """Return `plan` with as many layers of every cell under `full` as `ids` has of it."""
    depths = fields.values.get("mtp_num_layers")
    counted = plan.num_layers - plan.mtp_layers
    most = counted + (depths if is_integer(depths) else 0) - 1
    if ids[0] < 0 or ids[-1] > most:
        raise fields.error(LAYER_IDS, _("must be ids from 0 to {most}", most=most))
    table = [[0] * plan.num_ranks for _chunk in range(plan.num_chunks)]
    are_first = True
    for stage in stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks)):
        inside = [layer for layer in ids if layer in stage.layers]
        table[stage.chunk][stage.rank] = len(inside)
        are_first &= inside == list(stage.layers[: len(inside)])
    if not are_first:
        notes.append(_("the plan has as many recomputed layers in every cell as the file, but has them first"))
    if ids[-1] >= plan.num_layers and not plan.mtp_layers:
        notes.append(_("the plan does not have the recomputation of layers of multi-token prediction"))
    return replace(plan, recompute={FULL: cells(table)})


def _scheduled(plan: Plan, fields: Fields, *, moves: bool) -> Plan:
    """Return `plan` under the schedule that the file asks for, where attention's inputs may move on a V."""
    if fields.values.get(OLD_RUNTIME) is True:
        raise fields.error(OLD_RUNTIME, _("must be false: its orders of work are Primus' own"))
    if fields.values.get(OWN_RUNTIME) is not True:
        return plan
    algorithm = fields.values.get(ALGORITHM, _DEFAULT_ALGORITHM)
    if algorithm not in ("1f1b", "1f1b-interleaved", "zero-bubble", formatted_zbv.ALGORITHM):
        rule = _("must be 1f1b, 1f1b-interleaved, zero-bubble or zbv-formatted: other orders of work are Primus' own")
        raise fields.error(ALGORITHM, rule)
    if plan.schedule in PAIRED:
        raise fields.error(OWN_RUNTIME, _("must be false beside {key}: its pairs are Primus' own", key=PAIRS))
    if algorithm == formatted_zbv.ALGORITHM:
        return formatted_zbv.on_a_v(plan, moves=moves, place=fields.place(ALGORITHM))
    if (plan.num_chunks > 1) != (algorithm == "1f1b-interleaved"):
        rule = _("must have one chunk per rank, or several for 1f1b-interleaved")
        raise InputError(value=algorithm, rule=rule, place=fields.place(ALGORITHM))
    fits = plan.num_microbatches >= plan.num_ranks
    if plan.num_chunks > 1:
        fits = plan.num_microbatches % plan.num_ranks == 0 and plan.group_size is None
    if not fits:
        rule = _("must have as many microbatches as ranks or more, with chunks a multiple, in groups of as many")
        raise InputError(value=plan.num_microbatches, rule=rule, place=fields.place(ALGORITHM))
    return replace(plan, schedule="zb-h1") if algorithm == "zero-bubble" else plan
