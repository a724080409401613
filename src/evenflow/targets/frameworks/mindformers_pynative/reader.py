"""The plan that a configuration YAML of MindFormers in PyNative mode asks for."""

from collections.abc import Iterator, Mapping, Sequence

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import FULL, SELECT, Cells, Plan, Sizes, cells, ordered_kinds
from evenflow.predict.training import Sharding
from evenflow.profiles.training_file import LAYER_KEYS
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import CHUNKS, LAYERS, MICROBATCHES, RANKS
from evenflow.targets.frameworks.mindformers_pynative.layer_ranges import layer_ids, range_ends
from evenflow.targets.frameworks.mindformers_pynative.pairs import read_pairs
from evenflow.targets.frameworks.mindformers_pynative.values import PARTS, set_of, stages
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers
from evenflow.targets.target import Baseline, GivenSizes

_PIPELINE = "pipeline_parallel"
_MODULES = "select_module"
_LAYERS = f"{_PIPELINE}_layers_per_stage"
_FAMILIES = {"1f1b": "1f1b", "interleaved_1f1b": "interleaved", "gpipe": "f-then-b"}
_KNOWN = tuple(
    f"{_PIPELINE}{rest}"
    for rest in (
        "",
        "_interleave_num",
        "_layers_per_stage",
        "_schedule",
        "_microbatch_size",  # overwritten when the training starts
        "_overlap_p2p",
        "_p2p_transport",
        "_overlap_b_f",
        "_enable_dxdw_split",
    )
)
_Ids = Sequence[range]


def read_plan(text: str, file: str, sizes: GivenSizes) -> Baseline:
    """Return the plan of a configuration YAML.

    Raises:
        InputError: text that is no YAML object, sizes that are neither there nor given, stages that do not hold every
            layer once, a setting that MindFormers refuses or no plan can say.
    """
    top = load_yaml(text, file=file)
    check_own_keys(top, ("parallelism", "model", "recompute"), title="MindFormers")
    parallel = optional_section(top, "parallelism")
    recompute = optional_section(top, "recompute")
    model = optional_section(top, "model")
    num_ranks = parallel.integer(_PIPELINE, RANKS) if _PIPELINE in parallel else sizes.num_ranks or 1
    interleave = f"{_PIPELINE}_interleave_num"
    num_chunks = parallel.integer(interleave, CHUNKS) if interleave in parallel else 1
    if sizes.num_microbatches is None:
        raise InputError(
            rule=_("must be given, since {file} leaves it to global_batch_size and the number of devices", file=file),
            place="--microbatches",
        )
    with top.at():
        MICROBATCHES.check(sizes.num_microbatches, place="--microbatches")
        Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=sizes.num_microbatches)
    key = next((key for key in LAYER_KEYS if key in model), None)
    num_layers = sizes.num_layers if key is None else model.integer(key, LAYERS)
    layers = _layers(parallel, num_layers, num_ranks=num_ranks, num_chunks=num_chunks)
    pairs = read_pairs(parallel, model, layers)
    bare = Plan(
        schedule="interleaved-overlap" if pairs.are_run else _family(parallel, num_chunks),
        num_microbatches=sizes.num_microbatches,
        layers=layers,
        delays_weights=False if pairs.are_run else None,
    )
    mode = recompute.values.get("mode", "None")
    if mode not in (None, "None", "full", "select"):
        raise recompute.error("mode", _("must be None, full or select"))
    full = layer_ids(recompute, "full_recompute_layer", recompute.values.get("full_recompute_layer"))
    selected = _selected(recompute)
    kinds = _kinds(recompute, selected, bare.num_layers)
    swap = optional_section(top, "swap")
    if num_ranks > 1 and swap.flag("enable"):
        rule = _("must be off with a pipeline, beside which MindFormers refuses it")
        raise swap.error("enable", rule, remedy=_("recompute instead, or use the static graph"))
    if mode != "select":
        selected, kinds = {}, {}
    by_kind = {FULL: full if mode in ("full", "select") else (), **kinds}
    counted = _counted(bare, by_kind)
    plan = Plan(
        schedule=bare.schedule,
        num_microbatches=bare.num_microbatches,
        layers=layers,
        recompute={kind: table for kind, table in counted.items() if any(map(any, table))},
        delays_weights=bare.delays_weights,
    )
    return Baseline(
        plan=plan,
        unknown=(*pairs.unknown, *_unknown(top, parallel, recompute)),
        notes=(*pairs.notes, *_notes(plan, by_kind, selected)),
        place_of_sets=recompute.place(_MODULES) if kinds.keys() - {SELECT} else "",
        select_set=next(iter(kinds)) if len(kinds) == 1 and SELECT not in kinds else "",
    )


def stated_in_configuration(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a configuration YAML; raises InputError for text that is no object, and wrong values."""
    top = load_yaml(text, file=file)
    parallel, training = optional_section(top, "parallelism"), optional_section(top, "training")
    numbers, places = whole_numbers(
        {
            "tensor": (parallel, "tensor_parallel"),
            "context": (parallel, "context_parallel"),
            "expert": (parallel, "expert_parallel"),
            "pipeline": (parallel, _PIPELINE),
            "microbatch": (training, "local_batch_size"),
            "global_batch": (training, "global_batch_size"),
        }
    )
    numbers = {"tensor": 1, "context": 1, "expert": 1, "pipeline": 1, "microbatch": 1} | numbers
    policy = parallel.values.get("reshard_after_forward_policy", "default")
    if policy not in ("default", "always", "never"):
        raise parallel.error("reshard_after_forward_policy", _("must be default, always or never"))
    keeps = policy == "never" or (policy == "default" and numbers["pipeline"] > 1)
    is_copied = parallel.values.get("data_parallel_shard") == 1 and numbers["context"] == 1
    shared = Sharding.GRADIENTS if keeps else Sharding.PARAMETERS
    return StatedDegrees(
        tensor=numbers["tensor"],
        context=numbers["context"],
        expert=numbers["expert"],
        pipeline=numbers["pipeline"],
        sharding=Sharding.NOTHING if is_copied else shared,
        sequence_parallel=parallel.flag("sequence_parallel"),
        microbatch=numbers["microbatch"],
        global_batch=numbers.get("global_batch"),
        places=places,
    )


def is_configuration(text: str, file: str) -> bool:
    """Return whether a text looks like a configuration of MindFormers in PyNative mode."""
    try:
        parallel = optional_section(load_yaml(text, file=file), "parallelism")
    except InputError:
        return False
    return _PIPELINE in parallel


def _layers(parallel: Fields, num_layers: int | None, *, num_ranks: int, num_chunks: int) -> Cells:
    """Return the layers of every cell."""
    value = parallel.values.get(_LAYERS, "auto")
    num_stages = num_ranks * num_chunks
    if value == "auto" or (value is None and num_stages == 1):
        if num_layers is None:
            raise InputError(
                rule=_("must have num_hidden_layers"),
                place=f"{parallel.file}: model",
                remedy=_("add it, or give {option}", option="--layers"),
            )
        if num_layers % num_stages:
            rule = _(
                "must list the layers of {num_stages} stages, among which {num_layers} cannot be equally divided",
                num_stages=num_stages,
                num_layers=num_layers,
            )
            raise parallel.error(_LAYERS, rule)
        return cells([[num_layers // num_stages] * num_ranks] * num_chunks)
    rows = [[range_ends(part) for part in str(text).split(",")] for text in value] if isinstance(value, list) else []
    if len(rows) != num_ranks or any(len(row) != num_chunks for row in rows):
        rule = _(
            "must be auto, or a text for each of the {num_ranks} ranks with a range such as 0-3 for each of its "
            "{num_chunks} chunks",
            num_ranks=num_ranks,
            num_chunks=num_chunks,
        )
        raise parallel.error(_LAYERS, rule)
    table = [[0] * num_ranks for _ in range(num_chunks)]
    reached = 0
    for chunk in range(num_chunks):
        for rank in range(num_ranks):
            ends = rows[rank][chunk]
            if ends is None or ends[0] != reached:
                rule = _(
                    "must begin with layer {layer} in chunk {chunk} of rank {rank}, so that each layer is in one stage",
                    layer=reached,
                    chunk=chunk,
                    rank=rank,
                )
                raise parallel.error(_LAYERS, rule)
            reached = ends[1] + 1
            table[chunk][rank] = reached - ends[0]
    if num_layers is not None and reached != num_layers:
        rule = _(
            "must hold the {num_layers} layers of the model, and hold {reached}", num_layers=num_layers, reached=reached
        )
        raise parallel.error(_LAYERS, rule)
    return cells(table)


def _family(parallel: Fields, num_chunks: int) -> str:
    """Return the schedule family, which is interleaved for 1f1b with several chunks."""
    key = f"{_PIPELINE}_schedule"
    allowed = ("1f1b", "interleaved_1f1b") if num_chunks > 1 else ("1f1b", "gpipe")
    name = str(parallel.values.get(key) or "1f1b").lower()
    if name not in allowed:
        rule = _("must be {names} with {num_chunks} chunks", names=", ".join(allowed), num_chunks=num_chunks)
        raise parallel.error(key, rule)
    return "interleaved" if num_chunks > 1 else _FAMILIES[name]


def _selected(recompute: Fields) -> dict[str, _Ids]:
    """Return the modules under ``select_module``, each with its layers."""
    value = recompute.values.get(_MODULES)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise recompute.error(_MODULES, _("must be a list of layers for each module"))
    return {str(name): layer_ids(recompute, _MODULES, specs) for name, specs in value.items()}


def _kinds(recompute: Fields, selected: Mapping[str, _Ids], num_layers: int) -> dict[str, _Ids]:
    """Return the layers under every set of modules; under `select` where the modules are no set that is known."""
    layers = {path: _inside(ids, range(num_layers)) for path, ids in selected.items()}
    if set(layers) <= set(PARTS):
        found: dict[str, list[range]] = {}
        for layer in sorted(set().union(*layers.values())):
            paths = [path for path in layers if layer in layers[path]]
            inner = [path for path in paths if any(path.startswith(f"{outer}.") for outer in paths)]
            kind = set_of(path for path in paths if path not in inner)
            found.setdefault(kind, []).append(range(layer, layer + 1))
        return dict(found)
    if any(list(ids) != list(next(iter(selected.values()))) for ids in selected.values()):
        rule = _("must have the same layers for every module, since a plan has one kind of layers for all of them")
        raise recompute.error(_MODULES, rule)
    return {SELECT: next(iter(selected.values()), ())}


def _counted(plan: Plan, by_kind: Mapping[str, _Ids]) -> dict[str, Cells]:
    """Return how many layers of every cell are under each kind; full wins."""
    tables = {kind: [[0] * plan.num_ranks for _ in range(plan.num_chunks)] for kind in by_kind}
    for stage in stages(plan):
        full = _inside(by_kind[FULL], stage.layers)
        for kind, ids in by_kind.items():
            under = _inside(ids, stage.layers)
            tables[kind][stage.chunk][stage.rank] = len(under if kind == FULL else under - full)
    return {kind: cells(table) for kind, table in tables.items()}


def _inside(ids: _Ids, layers: range) -> set[int]:
    return {layer for each in ids for layer in range(max(each.start, layers.start), min(each.stop, layers.stop))}


def _unknown(top: Fields, parallel: Fields, recompute: Fields) -> Iterator[str]:
    for key, value in parallel.values.items():
        if key.startswith(_PIPELINE) and key not in _KNOWN and value:
            yield parallel.place(key)
    for key, value in recompute.values.items():
        if key not in ("mode", "full_recompute_layer", "select_module") and value:
            yield recompute.place(key)
    for name in ("recompute_comm", "swap"):
        if optional_section(top, name).values.get("enable"):
            yield top.place(name)


def _notes(plan: Plan, by_kind: Mapping[str, _Ids], selected: Mapping[str, _Ids]) -> Iterator[str]:
    if selected and SELECT in by_kind:
        yield _("{kind} recompute is of the operators {names}", kind=SELECT, names=", ".join(selected))
    order = ordered_kinds({FULL, *by_kind})
    for stage in stages(plan):
        seen: set[int] = set()
        firsts = []
        for kind in order:
            seen |= _inside(by_kind.get(kind, ()), stage.layers)
            firsts.append(seen == set(stage.layers[: len(seen)]))
        if not all(firsts):
            yield _("layers that recompute are counted as the first of their stage")
            break
    if any(each.stop > plan.num_layers for ids in (by_kind[FULL], *selected.values()) for each in ids):
        yield _("layers from {count} on, which predict further tokens, are not in the plan", count=plan.num_layers)
