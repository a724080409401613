"""Write the tables of docs/architectures.md, and of its Chinese page, from what `make check-architectures` found.

Run it with ``make architecture-table``.
"""

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
COUNTS = DOCS / "tables" / "architectures.json"
PAGES = (DOCS / "architectures.md", DOCS / "zh" / "architectures.md")
HALF = "half blocks"
RUNS = (
    "bart", "bert", "bloom", "camembert", "codegen", "deepseek_v2", "deepseek_v3", "ernie4_5", "ernie4_5_moe",
    "exaone4", "falcon", "gemma", "glm", "glm4", "glm4_moe", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss",
    "gptj", "hunyuan_v1_dense", "hunyuan_v1_moe", "internlm3", "llama", "m2m_100", "mbart", "minimax_m2", "ministral",
    "ministral3", "mistral", "mixtral", "mpt", "mt5", "olmo", "olmo2", "olmo3", "olmoe", "opt", "pegasus", "phi",
    "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "roberta", "smollm3", "stablelm", "starcoder2", "t5",
    "xlm-roberta",
)  # fmt: skip
"""Types whose models `evenflow run` and `auto` build from a configuration; a test of the other house holds this."""
TABLES = ("released", "equal", "fields", "refused")


def counts() -> dict[str, Any]:
    """Return what the check found."""
    found: dict[str, Any] = json.loads(COUNTS.read_text("utf-8"))
    return found


def released_table() -> str:
    """Return the released models, a row each."""
    lines = [
        "| model | `model_type` | layers | parameters | published | read, predicted, planned | exported | run |",
        "|---|---|---|---:|---|---|---|---|",
    ]
    for name, row in counts()["released"].items():
        example = row.get("example")
        title = f"{name}, `{example}`" if example else name
        done = "yes" if row["built"] == row["read"] and row["predicted"] and row["planned"] else "no"
        exported = "as layers" if HALF in row["parts"] else "yes"
        runs = "yes" if row["model_type"] in RUNS else "–"
        published = f"{row['published']} ({row['source']})"
        cells = (
            title, f"`{row['model_type']}`", ", ".join(row["parts"]), f"{row['read']:,}", published, done,
            exported, runs,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def names(types: list[str]) -> str:
    """Return types, one after the other."""
    return ", ".join(f"`{name}`" for name in types)


def equal_list() -> str:
    """Return the types that are read to the digit."""
    types = [name for name, (built, read) in counts()["read"].items() if built == read]
    return f"{len(types)} types: {names(types)}.\n"


def fields_list() -> str:
    """Return the types whose parameters are near, or that transformers does not build at its defaults."""
    lines = []
    for name, (built, read) in counts()["read"].items():
        if built is None:
            lines.append(f"- `{name}`: {read:,}; transformers builds no model of its defaults")
        elif built != read:
            lines.append(f"- `{name}`: {read:,} for {built:,}, {read / built - 1:+.3%}")
    return "\n".join(lines or ["- none"]) + "\n"


def refused_list() -> str:
    """Return why types are refused, with those of each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, refusal in counts()["refused"].items():
        reason = refusal.partition("not read: ")[2] or refusal
        by_reason.setdefault(reason.partition("; write it")[0], []).append(name)
    lines = [
        f"- {reason}: {names(types)}" for reason, types in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    return "\n".join(lines) + "\n"


def page(path: Path) -> str:
    """Return a page with the tables as they must be."""
    text = path.read_text(encoding="utf-8")
    made = dict(zip(TABLES, (released_table(), equal_list(), fields_list(), refused_list()), strict=True))
    for name, table in made.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, mark, rest = text.partition(begin)
        if mark:
            text = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path), encoding="utf-8")
