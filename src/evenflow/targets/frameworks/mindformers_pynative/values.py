"""What MindFormers in PyNative mode can run of a plan, and a plan as the values of its configuration YAML."""

from collections.abc import Iterable, Mapping

from evenflow.errors import InputError
from evenflow.export.train_yaml import BOM, apply_to_training_yaml, value_at
from evenflow.language import _
from evenflow.model import FULL, SELECT, Abilities, Empty, Groups, Plan, Recomputation, Scope, SizeRule, looped
from evenflow.predict.training import FULL_ATTENTION, SET_MODULES, set_kind
from evenflow.profiles.training_file import LAYER_KEYS
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers_pynative.layer_ranges import layer_ranges
from evenflow.targets.frameworks.mindformers_pynative.pairs import OVERLAP, SPLIT, read_pairs
from evenflow.targets.stages import StageLayers, layers_by_kind, stages_of

SCHEDULES = {"1f1b": "1f1b", "interleaved": "interleaved_1f1b", "f-then-b": "gpipe"}
"""Schedule families that it runs in the same order, and their names in it. [hyper-parallel: scheduler.py]"""
PAIRED = "interleaved-overlap"
"""The family that it runs with forwards beside backwards. [hyper-parallel: `ScheduleInterleaved1F1B`, `overlap_b_f`]"""
PARTS: Mapping[str, tuple[str, ...]] = {
    "self_attention": (FULL_ATTENTION,), "mlp": ("mlp", "moe"), "mlp.shared_experts": ("shared_experts",)
}  # fmt: skip
"""The modules of a layer that are modules of a set: checkpoints keep their inputs, so that norms alone free nothing."""


def set_of(paths: Iterable[str]) -> str:
    """Return the set of modules, a recompute kind, that some of `PARTS` are together."""
    chosen = {module for path in paths for module in PARTS[path]}
    return set_kind([module for module in SET_MODULES if module in chosen])


PATHS: Mapping[str, tuple[str, ...]] = {
    set_of(paths): paths
    for paths in (
        ("self_attention",),
        ("mlp",),
        ("mlp.shared_experts",),
        ("self_attention", "mlp"),
        ("self_attention", "mlp.shared_experts"),
    )
}
"""The modules of a layer of every set, which is a recompute kind; an MLP has the shared experts inside."""
SELECT_MODULE = "self_attention"
"""The module of a layer that is recomputed under `select` where the user's file names none: what evenflow's own
profiles measure.
"""


def abilities() -> Abilities:
    """Return what MindFormers in PyNative mode can run.

    ``recompute_comm`` is not among it: it leaves alone the communication that parallel styles add to a layer.
    [MindFormers 2.1.0: activation_checkpoint.py, checked]
    """
    return Abilities(
        schedules=tuple(SCHEDULES),
        equal_pairs=PAIRED,
        recomputes_before_pairs=True,
        recomputation=(
            Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT)),
            Recomputation(scope=Scope.LAYERS, kinds=(FULL, *PATHS)),
        ),
        empty=Empty.NONE,
        groups=Groups.MULTIPLE,
        sizes=(
            SizeRule(
                text=_("must be 1 under f-then-b"),
                holds=lambda sizes, schedule: sizes.num_chunks == 1 or schedule != "f-then-b",
                place="chunks",
            ),
        ),
    )


def stages(plan: Plan) -> tuple[StageLayers, ...]:
    """Return the stages of `plan`, in the order of the network."""
    return stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))


def pynative_values(plan: Plan, modules: tuple[str, ...] = (SELECT_MODULE,)) -> Mapping[str, object]:
    """Return what `plan` decides in the configuration, by dotted key; `modules` are those of `select`.

    The number of microbatches has no key: it is ``global_batch_size`` over that of one microbatch on all replicas.
    """
    ranks: list[list[str]] = [[] for _ in range(plan.num_ranks)]
    for stage in stages(plan):
        ranks[stage.rank] += layer_ranges(stage.layers)
    by_kind = layers_by_kind(stages(plan))
    full = by_kind.get(FULL, ())
    paths = {SELECT: modules, **PATHS}
    chosen: dict[str, list[int]] = {}
    for kind in (kind for kind in by_kind if kind != FULL):
        for path in paths[kind]:
            chosen[path] = sorted((*chosen.get(path, ()), *by_kind[kind]))
    return {
        "parallelism.pipeline_parallel": plan.num_ranks,
        "parallelism.pipeline_parallel_interleave_num": plan.num_chunks,
        "parallelism.pipeline_parallel_layers_per_stage": [",".join(chunks) for chunks in ranks],
        "parallelism.pipeline_parallel_schedule": _schedule(plan),
        **({f"parallelism.{OVERLAP}": True} if plan.schedule == PAIRED else {}),
        "recompute.mode": "select" if chosen else "full" if full else "None",
        **({"recompute.full_recompute_layer": layer_ranges(full)} if full or chosen else {}),
        **(
            {"recompute.select_module": {path: layer_ranges(layers) for path, layers in chosen.items()}}
            if chosen
            else {}
        ),
    }


def apply_plan(text: str, file: str, plan: Plan) -> str:
    """Return the configuration YAML `text` with all that `plan` decides; modules under ``select_module`` stay.

    Raises:
        InputError: a file with another number of layers than the plan; keys that cannot be set without changing
            something else; pairs of chunks with unequal numbers of layers with experts.
    """
    document = load_document(text.removeprefix(BOM), file=file).value
    for key in LAYER_KEYS:
        given = value_at(document, ("model", key))
        if isinstance(given, int) and given != plan.num_layers:
            rule = _("must be the number of layers of the plan ({num_layers})", num_layers=plan.num_layers)
            raise InputError(value=given, rule=rule, place=f"{file}: model.{key}")
    named = value_at(document, ("recompute", "select_module"))
    modules = tuple(map(str, named)) if isinstance(named, Mapping) and named else (SELECT_MODULE,)
    values = dict(pynative_values(plan, modules))
    for key in (OVERLAP, SPLIT):  # pairs are planned without split backwards
        if value_at(document, ("parallelism", key)) and f"parallelism.{key}" not in values:
            values[f"parallelism.{key}"] = False
    applied = apply_to_training_yaml(text, file=file, values=values)
    if plan.schedule == PAIRED:
        top = load_yaml(applied, file=file)
        read_pairs(optional_section(top, "parallelism"), optional_section(top, "model"), plan.layers)
    return applied


def _schedule(plan: Plan) -> str:
    if plan.num_chunks == 1:
        return _of_one(plan)
    return SCHEDULES["interleaved" if plan.schedule == PAIRED else plan.schedule]


def _of_one(plan: Plan) -> str:
    """Return the name of a schedule with one chunk, where interleaving makes no difference."""
    return "gpipe" if plan.schedule == "f-then-b" else "1f1b"
