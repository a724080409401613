"""The sets of modules that a framework's configuration computes again or moves, as far as layers offer them."""

from collections.abc import Collection
from dataclasses import replace

from evenflow.language import _
from evenflow.model import SELECT, MovedGroups, Network, with_moved_share
from evenflow.predict.training import FULL_ATTENTION, MOVES, moved_chain, set_kind, sets_among
from evenflow.schedule import schedule_of
from evenflow.targets.target import Baseline


def in_offered_kinds(baseline: Baseline, kinds: Collection[str]) -> Baseline:
    """Return a baseline of which sets of modules that are not among `kinds` are named as not understood.

    `select` stands for one that computes core attention again, or that is `select` in the file, nothing for the others.
    So it is with `select` itself, which layers do not offer where it saves nothing.
    """
    recompute, unknown, notes = dict(baseline.plan.recompute), list(baseline.unknown), list(baseline.notes)
    share = baseline.plan.moved_share
    if share is not None and not set(moved_chain(share.kind)) <= set(kinds):
        unknown += ["activation_offload_fraction"] if share.share < 1 else []
        unknown += ["delta_offload_bytes_across_pp_ranks"] if share.kept_bytes else []
        share = None
    for modules in sets_among(baseline.plan.used_kinds):
        kind = set_kind(modules)
        if kind in kinds:
            continue
        cells = recompute.pop(kind)
        stands = ("core_attn" in modules or kind == baseline.select_set) and SELECT in kinds
        if stands:
            recompute[SELECT] = cells
        if kind == baseline.select_set and stands:
            if modules != (FULL_ATTENTION,):
                note = _("{kind} recompute is of the operators {names}", kind=SELECT, names=", ".join(modules))
                notes.append(note)
            continue
        if baseline.place_of_sets:
            if stands and modules == ("core_attn",):
                continue
            unknown += [baseline.place_of_sets] if baseline.place_of_sets not in unknown else []
            continue
        for module in modules:
            if module != "core_attn" or not stands:
                key = "offload_modules" if module.startswith(MOVES) else "recompute_modules"
                unknown.append(f"{key}: {module.removeprefix(MOVES)}")
    if SELECT in recompute and SELECT not in kinds:
        del recompute[SELECT]
        unknown.append("recompute_modules: core_attn")
    plan = replace(baseline.plan, recompute=recompute, moved_share=share)
    return replace(baseline, plan=plan, unknown=tuple(unknown), notes=tuple(notes))


def with_own_counts(baseline: Baseline, network: Network) -> Baseline:
    """Return a baseline of `network`, whose kinds it has, with the layers of every cell that a share of what moves
    makes.
    """
    plan = baseline.plan
    groups = None if plan.moved_share is None else MovedGroups.of(network, moved_chain(plan.moved_share.kind))
    if groups is None or plan.num_layers != network.num_layers:
        return baseline
    return replace(baseline, plan=with_moved_share(plan, groups, schedule_of(plan).stage_table))
