"""Does evenflow count the parameters that transformers builds? Run by `make check-architectures`.

Every type of a causal language model, and of a model that answers with text about images, is built at its default
configuration (`build.py`, in an environment of its own), and evenflow reads that configuration. A type that is known
must be equal to the digit; none may be off by more than 1 %, nor be read as something else in silence. The same holds
for models as they were released (`released.py`), which are predicted and planned too. With
``--fields``, every field of every type that is read is changed as well: what changes the model must change the
reading in the same way, or be refused by name.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from changes import changes
from outcomes import Outcome, outcome
from released import as_row, fields_of, released, released_models

HERE = Path(__file__).resolve().parent
COUNTS = HERE.parents[1] / "docs" / "tables" / "architectures.json"


@click.command()
@click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has transformers.",
)
@click.option("--fields", is_flag=True, help="Change every field as well, which takes half an hour.")
@click.option("--write", is_flag=True, help="Write what docs/architectures.md shows.")
@click.argument("types", nargs=-1)
def check(python: Path, fields: bool, write: bool, types: tuple[str, ...]) -> None:
    """Build, read, compare; TYPES alone, or all."""
    if write and types:
        raise click.UsageError("--write is of all types: name none")
    found = built(python, {name: (name, {}) for name in types})
    outcomes = [outcome(name, model) for name, model in found["models"].items()]
    for one in sorted(outcomes, key=lambda one: (one.kind, one.name)):
        click.echo(one.line)
    kinds = Counter(one.kind for one in outcomes)
    click.echo(f"transformers {found['version']}: {', '.join(f'{kinds[kind]} {kind}' for kind in sorted(kinds))}")
    wrong = [one for one in outcomes if one.is_wrong]
    rows = dict(released_rows(python)) if not types else {}
    for name, row in rows.items():
        done = ", ".join(word for word in ("predicted", "planned") if row[word]) or "neither predicted nor planned"
        click.echo(f"{name:28} {row['published']:>8} {row['built']:>17,} {row['read']:>17,}  {done}")
        if row["built"] != row["read"] or not (row["predicted"] and row["planned"]):
            wrong.append(Outcome(name=name, built=row["built"], read=row["read"], failure=done))
    if fields:
        wrong += list(wrong_changes(python, found["models"], outcomes))
    for one in wrong:
        click.echo(f"wrong: {one.line}", err=True)
    if write:
        counts = as_counts(found["version"], outcomes) | {"released": rows}
        COUNTS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    sys.exit(bool(wrong))


def released_rows(python: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the released models by their names, each as a row of the page."""
    models = built(python, released_models())["models"]
    for name, about in released().items():
        model = models.get(name) or {"parameters": about["tensors"], "config": fields_of(about)}
        yield name, as_row(name, outcome(name, model), model["config"])


def built(python: Path, asked: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return what transformers builds of the models that are asked for; of all types where none is."""
    with tempfile.TemporaryDirectory() as name:
        into, out = Path(name) / "asked.json", Path(name) / "found.json"
        into.write_text(json.dumps(asked), encoding="utf-8")
        run = subprocess.run(
            [python.absolute(), HERE / "build.py", into, out], cwd=name, capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.exit(f"transformers could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
        found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return found


def wrong_changes(python: Path, models: dict[str, Any], outcomes: Iterable[Outcome]) -> Iterable[Outcome]:
    """Yield what is read otherwise than it is built once a field has another value."""
    for one in outcomes:
        if one.kind != "equal":
            continue
        asked = {name: (one.name, config) for name, config in changes(one.name, models[one.name]["config"])}
        for name, model in built(python, asked)["models"].items():
            changed = outcome(name, model)
            if changed.kind in ("near", "off") and changed.built != one.built:
                yield changed


def as_counts(version: str, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return what the page shows: parameters of the types that are read, and why the others are not."""
    return {
        "transformers": version,
        "read": {one.name: list(one.counts) for one in outcomes if one.read is not None},
        "refused": {one.name: one.refusal for one in outcomes if one.read is None},
    }


if __name__ == "__main__":
    check()
