"""Help whose options stand in sections, for verbs that have many."""

from typing import Any

import click

from evenflow.language import _, looked_up, to_translate

_REST = to_translate("Other options")
_MODEL = "--model"


class SectionOption(click.Option):
    """An option that stands in a section of the help."""

    def __init__(self, *arguments: Any, section: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help has its options in their sections, in the order of the first of each; the rest come last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; words that belong to no option are most likely the model, whose option is named then."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            message = _("Got unexpected extra argument ({text})", text=" ".join(rest))
            if any(_MODEL in parameter.opts for parameter in self.params):
                message = _("{message}. Did you mean {option} {word}?", message=message, option=_MODEL, word=rest[0])
            ctx.fail(message)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of options for each section."""
        by_section: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                by_section.setdefault(getattr(parameter, "section", ""), []).append(record)
        for title, records in sorted(by_section.items(), key=lambda titled: not titled[0]):
            with formatter.section(looked_up(title or _REST)):
                formatter.write_dl(records)
