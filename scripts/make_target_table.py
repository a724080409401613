"""Write the table of docs/targets/index.md: what each framework can run, from its own data.

Run it with ``make target-table``.
"""

from pathlib import Path

from evenflow.model import (
    OFFLOAD,
    SET_JOINT,
    Abilities,
    Empty,
    Groups,
    Recomputation,
    Scope,
    even_cut,
    segment_length,
)
from evenflow.predict.training import PRODUCTS, moved_of, sets_among
from evenflow.schedule import FAMILIES
from evenflow.targets.registry import all_targets
from evenflow.targets.target import Target

PAGE = Path(__file__).resolve().parents[1] / "docs" / "targets" / "index.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
DEGREES_BEGIN, DEGREES_END = "<!-- degrees -->\n", "<!-- end of the degrees -->\n"
HEADER = ("framework", "name", "cut", "chunks", "recomputation", "orders of work", "reads, edits", "checked with")
DEGREES_HEADER = (
    "framework", "ZeRO", "ZeRO beside a pipeline", "context", "more rules for", "writes, reads", "built with",
)  # fmt: skip
EMPTY = {Empty.NONE: "", Empty.ENDS: ", empty ends", Empty.ANY: ", empty stages"}
GROUPS = {
    Groups.USUAL: "",
    Groups.MULTIPLE: " (microbatches a multiple of ranks)",
    Groups.MEGATRON: " (groups of N)",
    Groups.ANY: " (groups of any size)",
}


def _shown(kind: str) -> str:
    if kind.endswith(f"{SET_JOINT}{OFFLOAD}"):
        return "the rest of a layer on the host"
    if moved_of(kind.split("+")):
        return "modules on the host"
    if kind != PRODUCTS and sets_among((kind,)):
        return "a set of modules"
    return kind if segment_length(kind) is None else "segments"


def way_text(way: Recomputation) -> str:
    """Return one way of recomputing in a few words."""
    names = dict.fromkeys(_shown(kind) for kind in way.kinds)
    kinds = ", ".join(names) + (" or a share of them" if any(map(way.chain, way.kinds)) else "")
    if way.scope is Scope.LAYERS:
        pairs = dict.fromkeys(tuple(map(_shown, pair)) for pair in way.apart)
        apart = [" beside ".join(pair) for pair in pairs if len(set(pair)) == len(pair)]
        in_turn = ", each in the one before" if len(apart) < len(pairs) else ""
        return f"**by layer**: {kinds}{in_turn}{f', not {apart[0]}' if apart else ''}"
    if way.scope is Scope.CELL:
        return f"a whole cell: {kinds}"
    if way.scope is Scope.COUNT:
        return "**first K**: full"
    return f"**alike**: {kinds}"


def ways(abilities: Abilities) -> list[Recomputation]:
    """Return the ways of recomputing, without those that are a part of another one."""
    return [
        way
        for way in abilities.recomputation
        if not any(
            other is not way and other.scope is way.scope and set(other.kinds) > set(way.kinds)
            for other in abilities.recomputation
        )
    ]


def cut_text(abilities: Abilities) -> str:
    """Return which cuts a framework makes."""
    if abilities.own_cut is None:
        return "**any**"
    if abilities.own_cut is not even_cut:
        return "DeepSpeed's own"
    return "equal stages" if abilities.own_cut_from == 1 else "**any**, equal stages with several chunks"


def row(target: Target, version: str) -> tuple[str, ...]:
    """Return the cells of a framework's row beside its title."""
    abilities: Abilities = target.abilities(version)
    orders = [
        f"`{name}`{GROUPS[abilities.groups] if FAMILIES[name].has_groups else ''}" for name in abilities.schedules
    ]
    orders += [] if abilities.equal_pairs is None else [f"`{abilities.equal_pairs}` (equal chunks)"]
    orders = ["**any**"] if abilities.own_order else orders
    does = [word for word, can in (("reads", target.read), ("edits", target.apply)) if can is not None]
    return (
        f"`{target.name}`",
        cut_text(abilities) + EMPTY[abilities.empty],
        "any" if abilities.most_chunks is None else str(abilities.most_chunks),
        "; ".join(map(way_text, ways(abilities))) or "–",
        ", ".join(orders),
        ", ".join(does) or "–",
        (version not in target.unchecked_versions and target.checked_with) or "–",
    )


def table() -> str:
    """Return the table, with a row for each framework, and one for each version that runs something else."""
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    for target in all_targets().own.values():
        rows = {version: row(target, version) for version in target.versions}
        newest = rows[target.versions[-1]]
        shown = [version for version in target.versions if rows[version] != newest] + [target.versions[-1]]
        for version in reversed(shown):
            title = target.title if len(shown) == 1 else f"{target.title} {version}"
            lines.append(f"| {' | '.join((f'[{title}]({target.page}.md)', *rows[version]))} |")
    return "\n".join(lines) + "\n"


def degrees_row(target: Target, version: str) -> tuple[str, ...]:
    """Return the cells of what a framework can split, beside its title."""
    rules = target.degree_rules(version)
    axes = dict.fromkeys(str(rule.axis) for rule in rules.rules)
    does = [word for word, can in (("writes", target.write_degrees), ("reads", target.read_degrees)) if can is not None]
    return (
        ", ".join(rules.shardings),
        ", ".join(rules.pipeline_shardings),
        rules.context_exchange,
        ", ".join(axes) or "–",
        ", ".join(does) or "–",
        target.degrees_checked_with or "–",
    )


def degrees_table() -> str:
    """Return the table of degrees, with a row for all frameworks, and versions, that split alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for target in all_targets().own.values():
        rows = {version: degrees_row(target, version) for version in target.versions}
        newest = rows[target.versions[-1]]
        shown = [version for version in target.versions if rows[version] != newest] + [target.versions[-1]]
        for version in reversed(shown):
            title = target.title if len(shown) == 1 else f"{target.title} {version}"
            alike.setdefault(rows[version], []).append(f"[{title}]({target.page}.md)")
    lines = [f"| {' | '.join(DEGREES_HEADER)} |", f"|{'---|' * len(DEGREES_HEADER)}"]
    lines += [f"| {' | '.join((', '.join(titles), *row))} |" for row, titles in alike.items()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table as it must be."""
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, made in ((BEGIN, END, table()), (DEGREES_BEGIN, DEGREES_END, degrees_table())):
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{made}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
