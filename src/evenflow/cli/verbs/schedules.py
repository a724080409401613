"""The verb ``evenflow schedules``."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow.baselines.equal_stages import example_of
from evenflow.cli.shared import options
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.display_width import padded, text_width, wrapped
from evenflow.export.results.schedule_fields import family_fields
from evenflow.language import _, looked_up
from evenflow.schedule import ALIAS_NOTES, ALIASES, FAMILIES

_WIDEST = 110
_INDENT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesOptions:
    """What ``evenflow schedules`` is asked for: an option for each field."""

    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@options_as("request", SchedulesOptions)
def schedules(request: SchedulesOptions) -> int:
    """List the schedule families: idea, limits, memory, bubble and paper.

    \b
    Example:
      evenflow schedules --json families.json
    """
    outputs = Outputs(paths_of(request), overwrite=request.overwrite, without_mark=("--json",))
    symbols = _(
        "p ranks, v chunks on each rank, m microbatches, rank r from 0. Memory is the most that rank r keeps, in "
        "whole-rank activations of one microbatch. The bubble is the idle share of a step with equal stages and free "
        "messages."
    )
    paragraphs = ["\n".join(wrapped(symbols, text_width(_WIDEST + 5)))]
    for name, family in FAMILIES.items():
        rows = [
            (_("idea"), looked_up(family.idea)),
            (_("limits"), looked_up(family.limits)),
            (_("memory"), looked_up(family.memory)),
            (_("bubble"), looked_up(family.bubble)),
            (_("example"), _example(name)),
            (_("paper"), family.paper),
            *(
                (_("also"), f"{alias}: {looked_up(ALIAS_NOTES[alias])}")
                for alias, owner in ALIASES.items()
                if owner == name
            ),
        ]
        lines = []
        for title, text in rows:
            first, *more = wrapped(text, text_width(_WIDEST) - _INDENT)
            lines.append(f"  {padded(title, _INDENT - 2)}{first}")
            lines += [" " * _INDENT + line for line in more]
        paragraphs.append("\n".join([name, *lines]))
    click.echo("\n\n".join(paragraphs))
    outputs.write_json(family_fields)
    outputs.say(is_apart=True)
    return 0


def _example(name: str) -> str:
    """Return the idle share of a family for one size, by formula and simulated."""
    example = example_of(name)
    sizes, by_formula = example.simulation.plan.sizes, example.idle_share_by_formula
    case = _("p = {ranks}, v = {chunks}, m = {microbatches}, f = i = w", ranks=sizes.num_ranks, chunks=sizes.num_chunks,
             microbatches=sizes.num_microbatches)  # fmt: skip
    simulated = _("{share} % simulated", share=f"{100 * example.idle_share:.2f}")
    if by_formula is None:
        return _(
            "{case}: {simulated}; no formula: {reason}", case=case, simulated=simulated, reason=example.formula.words
        )
    return _(
        "{case}: {share} % by formula, {simulated}", case=case, share=f"{100 * by_formula:.2f}", simulated=simulated
    )
