"""Shortline: pipelines in four lines of TOML."""

from evenflow.language import _
from evenflow.model import Abilities, Plan, Recomputation, Scope
from evenflow.targets.target import Piece, Target, Written


def _abilities(version: str) -> Abilities:
    return Abilities(
        schedules=("1f1b", "f-then-b"),
        recomputation=(Recomputation(scope=Scope.CELL),),  # a stage recomputes all its layers, or none
        most_chunks=1,
    )


def _write(plan: Plan, version: str) -> Written:
    (layers,), (full,) = plan.layers, plan.recompute.get("full", ((0,) * plan.num_ranks,))
    order = "gpipe" if plan.schedule == "f-then-b" else "1f1b"
    lines = [f"layers = {list(layers)}", f"recompute = {[count > 0 for count in full]}".lower()]
    lines += [f"microbatches = {plan.num_microbatches}", f'order = "{order}"']
    return Written(pieces=(Piece(title=_("table [pipeline]"), syntax="toml", text="\n".join(lines) + "\n"),))


TARGET = Target(
    name="shortline",
    title="Shortline",
    versions=("1.0",),
    checked_with="",
    page="shortline",
    abilities=_abilities,
    write=_write,
)
