"""The plan that arguments of PaddleFormers, or a strategy of Paddle, ask for.

The list that is cut has the embedding, the layers, with empty ones before or after them where that is asked for, the
norm and the output layer [PaddleFormers, `GeneralModelForCausalLMPipe`].
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list, load_json
from evenflow.language import _
from evenflow.model import FULL, Plan, Sizes, cells
from evenflow.predict.training import FULL_ATTENTION, Sharding
from evenflow.ranges import CHUNKS, LAYERS, MICROBATCHES, RANKS, Range
from evenflow.targets.entry_lists.settings import FileSettings, even_counts
from evenflow.targets.frameworks.paddle.fleetx import BASE, settings_of
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers
from evenflow.targets.target import Baseline, GivenSizes

_RANKS = ("pipeline_model_parallel_size", "pipeline_parallel_degree", "pp_degree")
_CHUNKS = ("virtual_pipeline_model_parallel_size", "virtual_pp_degree", "num_virtual_pipeline_stages")
_STEPS = ("gradient_accumulation_steps", "accumulate_steps")
_LAYERS = ("num_hidden_layers",)
_METHODS = ("pp_seg_method", "seg_method")
_EMPTY = ("num_empty_layers_add_in_head", "num_empty_layers_add_in_tail")
_DEFAULT_METHOD = "layer:DecoderLayer|EmptyLayer"
_MARKS = (*_RANKS[1:], *_CHUNKS[1:], *_METHODS, *_EMPTY, "sharding_parallel_config")
"""Keys that other frameworks' files do not have."""
_OTHER_ORDERS = (
    "best_unbalanced_scheduler",
    "forward_backward_overlap_scheduler",
    "use_dualpipev",
    "pipeline_parallel_config",
)
_SKIPPED = "no_recompute_layers"
_MODULES = "recompute_modules"
_PARTS_OF_LAYERS = (_MODULES, "recompute_method", "recompute_num_layers")
CORE_ATTENTION = "core_attn"
OF_ATTENTION = (CORE_ATTENTION, FULL_ATTENTION)
"""Sets of modules, each a granularity of PaddleNLP: attention without its projections, or with them."""
_HEAD, _LAYER, _NOTHING, _TAIL = "head", "layer", "empty", "tail"


def read_plan(text: str, file: str, given_sizes: GivenSizes) -> Baseline:
    """Return the plan of arguments in JSON or YAML.

    Raises:
        InputError: text that is neither, a size that is neither there nor given, or what Paddle refuses.
    """
    settings = settings_of(text, file)
    check_own_keys(settings.fields, (*_RANKS, *_CHUNKS, *_STEPS, *_METHODS, *_EMPTY), title="Paddle")
    num_layers = settings.size(_LAYERS, given_sizes.num_layers, LAYERS, option="--layers")
    num_ranks = settings.size(_RANKS, given_sizes.num_ranks, RANKS, option="--ranks")
    num_chunks = settings.size(_CHUNKS, 1, CHUNKS, option="")
    num_microbatches = settings.size(_STEPS, given_sizes.num_microbatches, MICROBATCHES, option="--microbatches")
    fields = settings.fields
    with fields.at():
        sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    stages = _stages(settings, num_layers, sizes)
    counts = [names.count(_LAYER) for names in stages]
    kind = _recompute_kind(fields)
    skipped = _skipped(fields, num_layers) if kind in OF_ATTENTION else ()
    recomputed, in_front = _recomputed(counts, skipped) if kind else ([], True)
    rows = [slice(chunk * num_ranks, (chunk + 1) * num_ranks) for chunk in range(num_chunks)]
    with fields.at():
        plan = Plan(
            schedule=_schedule(sizes),
            num_microbatches=num_microbatches,
            layers=cells([counts[row] for row in rows]),
            recompute={kind: cells([recomputed[row] for row in rows])} if kind and any(recomputed) else {},
        )
    unknown = [name for name in _OTHER_ORDERS if fields.values.get(name)]
    if kind != FULL and not (kind and fields.values.get("recompute_granularity") == "selective"):
        unknown += [name for name in _PARTS_OF_LAYERS if fields.values.get(name)]
    unknown += [name for name in (_SKIPPED,) if fields.values.get(name) and kind not in OF_ATTENTION]
    unknown += [name for name in (BASE,) if name in fields]
    notes = []
    if not in_front:
        notes.append(_("layers that recompute are counted as the first of their stage"))
    if any(_NOTHING in names for names in stages):
        notes.append(_("empty layers are not in the plan: they take no time"))
    place = fields.place("recompute_granularity") if kind in OF_ATTENTION else ""
    return Baseline(plan=plan, unknown=tuple(map(fields.place, unknown)), notes=tuple(notes), place_of_sets=place)


def stated_in_arguments(text: str, file: str) -> StatedDegrees:
    """Return the degrees in arguments of PaddleFormers, or in a strategy; raises InputError for wrong values."""
    fields = settings_of(text, file).fields
    wanted = {
        "tensor": ("tensor_model_parallel_size", "tensor_parallel_degree", "mp_degree"),
        "context": ("context_parallel_size", "sep_parallel_degree", "sep_degree"),
        "expert": ("expert_model_parallel_size", "expert_parallel_degree"),
        "pipeline": _RANKS,
        "microbatch": ("per_device_train_batch_size", "micro_batch_size"),
        "sequence": ("max_seq_length", "max_seq_len"),
        "data": ("dp_degree", "data_parallel_degree"),
        "shards": ("sharding_degree", "sharding_parallel_size", "sharding_parallel_degree"),
    }
    places_of = {name: next((key for key in keys if key in fields), keys[0]) for name, keys in wanted.items()}
    told = {name: (fields, key) for name, key in places_of.items() if fields.values.get(key) != -1}
    numbers, places = whole_numbers(told)
    shards, copies = numbers.pop("shards", None), numbers.pop("data", None)
    has_words = "sharding" in fields
    stage = str(fields.values.get("sharding")).replace("stage", "") if has_words else None
    shared = None if shards is None and not has_words else Sharding.OPTIMIZER
    if stage in ("2", "3"):
        shared = Sharding(stage)
    if shards == 1 or (has_words and not fields.values["sharding"]):
        shared = Sharding.NOTHING
    return StatedDegrees(
        tensor=numbers.get("tensor"),
        context=numbers.get("context", 1),
        expert=numbers.get("expert"),
        pipeline=numbers.get("pipeline"),
        data=shards * copies if shards is not None and copies is not None else None,
        sharding=shared,
        microbatch=numbers.get("microbatch"),
        sequence=numbers.get("sequence"),
        places=places,
    )


def is_paddle(text: str, file: str) -> bool:
    """Return whether a text looks like arguments of PaddleFormers or a strategy of Paddle."""
    try:
        fields = settings_of(text, file).fields
    except InputError:
        return False
    if any(name in fields for name in _MARKS):
        return True
    is_llama_factory = any(name in fields for name in ("finetuning_type", "cutoff_len"))
    return _RANKS[0] in fields and _STEPS[0] in fields and not is_llama_factory


def _schedule(sizes: Sizes) -> str:
    """Return the order that Paddle chooses by the number of microbatches. [Paddle, `fleet.distributed_model`]"""
    if sizes.num_chunks == 1:
        return "1f1b"
    if sizes.num_ranks <= 2:
        raise InputError(value=sizes.num_ranks, rule=_("must be at least 3 with several chunks"), place="ranks")
    if sizes.num_microbatches >= 2 * sizes.num_ranks:
        return "interleaved"
    if sizes.num_microbatches == sizes.num_ranks:
        return "f-then-b"
    rule = _("must be the number of ranks ({num_ranks}), or at least twice that", num_ranks=sizes.num_ranks)
    raise InputError(value=sizes.num_microbatches, rule=rule, place="microbatches")


def _stages(settings: FileSettings, num_layers: int, sizes: Sizes) -> list[list[str]]:
    """Return what is in every stage."""
    fields = settings.fields
    key = next((name for name in _METHODS if name in fields), _METHODS[0])
    method = fields.values.get(key, _DEFAULT_METHOD)
    count = Range(least=0, most=LAYERS.most)
    before, after = (fields.integer(name, count) if name in fields else 0 for name in _EMPTY)
    names = [_HEAD, *[_NOTHING] * before, *[_LAYER] * num_layers, *[_NOTHING] * after, _TAIL, _TAIL]
    if isinstance(method, str) and method.startswith("["):
        method = load_json(method, file=fields.place(key))
    if isinstance(method, list):
        cuts = _listed(fields, key, method, len(names), sizes)
    elif isinstance(method, str) and method.startswith("layer:"):
        cuts = _by_layer(fields, key, method, names, sizes)
    elif method == "uniform":
        cuts = _uniform(fields, key, len(names), sizes)
    else:
        raise fields.error(key, _("must be uniform, a list of cuts, or layer: and names of classes"))
    return [names[begin:end] for begin, end in pairwise(cuts)]


def _listed(fields: Fields, key: str, cuts: object, length: int, sizes: Sizes) -> list[int]:
    """Return cuts from 0 to the end of the list."""
    if sizes.num_chunks > 1:
        raise fields.error(key, _("must begin with layer: where ranks have several chunks"))
    if is_integer_list(cuts) and len(cuts) == sizes.num_ranks:
        cuts = [*cuts, length]
    is_right = is_integer_list(cuts) and len(cuts) == sizes.num_ranks + 1 and cuts[0] == 0 and cuts[-1] == length
    if not is_integer_list(cuts) or not is_right or cuts != sorted(cuts):
        rule = _(
            "must have a rising number for each rank, the first 0, and no other but {length}, the length of the list",
            length=length,
        )
        raise fields.error(key, rule)
    return cuts


def _by_layer(fields: Fields, key: str, method: str, names: list[str], sizes: Sizes) -> list[int]:
    """Return the cuts that give every stage equally many of the entries whose class is named."""
    counted = {_LAYER, _NOTHING} if "emptylayer" in method.lower() else {_LAYER}
    places = [index for index, name in enumerate(names) if name in counted]
    parts = sizes.num_cells
    each, rest = divmod(len(places), parts)
    if rest and method == _DEFAULT_METHOD and sizes.num_chunks == 1:
        return _uniform(fields, key, len(names), sizes)  # as PaddleFormers then does
    if rest or not each:
        raise InputError(
            value=len(places),
            rule=_("must be a multiple of the {count} stages for Paddle", count=parts),
            place=fields.place(_LAYERS[0]),
        )
    return [0, *(places[part * each - 1] + 1 for part in range(1, parts)), len(names)]


def _uniform(fields: Fields, key: str, length: int, sizes: Sizes) -> list[int]:
    """Return the cuts that give every rank equally many entries, the last ranks one more. [Paddle, `SegmentLayers`]"""
    if sizes.num_chunks > 1:
        raise fields.error(key, _("must begin with layer: where ranks have several chunks"))
    cuts = [0]
    for count in even_counts(length, sizes.num_ranks, larger_last=True):
        cuts.append(cuts[-1] + count)
    return cuts


def _skipped(fields: Fields, num_layers: int) -> frozenset[int]:
    """Return the layers that do not recompute beside others that do."""
    value = fields.values.get(_SKIPPED)
    if value is None:
        return frozenset()
    if not is_integer_list(value) or any(not 0 <= layer < num_layers for layer in value):
        raise fields.error(_SKIPPED, _("must be a list of layers, from 0 to {last}", last=num_layers - 1))
    return frozenset(value)


def _recomputed(counts: Sequence[int], skipped: Collection[int]) -> tuple[list[int], bool]:
    """Return how many layers of every stage are not skipped, and whether these are the first ones of each."""
    ends = list(accumulate(counts))
    stages = [
        [layer not in skipped for layer in range(end - count, end)] for count, end in zip(counts, ends, strict=True)
    ]
    return [sum(stage) for stage in stages], all(stage == sorted(stage, reverse=True) for stage in stages)


def _recompute_kind(fields: Fields) -> str | None:
    """Return how layers are recomputed: whole, their attention alone, or not."""
    granularity = fields.values.get("recompute_granularity")
    if "recompute" in fields:  # before PaddleFormers 1.0
        kind = FULL if granularity in (None, "full") else str(granularity) if granularity in OF_ATTENTION else None
        return kind if fields.flag("recompute") else None
    modules = fields.values.get(_MODULES)
    if granularity == "selective" and isinstance(modules, list) and len(modules) == 1 and modules[0] in OF_ATTENTION:
        return str(modules[0])
    method, number = fields.values.get("recompute_method"), fields.values.get("recompute_num_layers")
    return FULL if granularity == "full" and method == "uniform" and number == 1 else None
