"""The command ``evenflow``: finds the verb and runs it."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

import evenflow
from evenflow import joining
from evenflow.cli.exit_status import run_command
from evenflow.cli.shared.defaults import use_defaults
from evenflow.cli.shared.help_language import speaking_as_asked, with_language
from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.interruption import watch
from evenflow.language import _
from evenflow.torch_house import needs_torch_house

VERBS = {
    "demo": "A first look: the plan of a 70B model, with nothing but this word.",
    "predict": "Step time and memory of a training from its configuration and a device's name.",
    "tune": "Which degrees of parallelism: all ways to split a training, ranked, with a proof.",
    "calibrate": "What your accelerators reach, fitted to runs that you measured.",
    "plan": "Cut, recomputation and order of work for the shortest step that fits in memory.",
    "simulate": "The exact timeline, memory and bubbles of your own plan.",
    "compare": "The recommended plan beside naive ones and your own.",
    "verify": "A check of a certificate by itself: is no plan shorter than it says?",
    "memory-curve": "Which step every amount of memory allows: a curve of plans, each with its proof.",
    "replan": "What to move when ranks of a running plan turn out slower, and whether it pays.",
    "report": "Plans and measured steps beside each other, as one page for the browser.",
    "export": "A plan written for your framework; what it cannot run is priced.",
    "apply": "Your framework's own file with a plan, otherwise byte for byte the same.",
    "schedules": "The families of schedules: idea, limits, memory, bubble, paper.",
    "schedule": "A family as a grid with its bubbles; a check of an order of work.",
    "guide": "The dry runs whose memory peaks determine the memory of every part.",
    "collect-peaks": "Peak memory of every stage from the logs of dry runs.",
    "fit-memory": "Parameters, activations, head, tail and constant from measured peaks.",
    "read-trace": "Head, body and tail time from a profiler's timelines.",
    "run": "Train a model as planned on torch.distributed; predicted against measured.",
    "auto": "Two-level plan: stages on parts of a cluster, and the sharding of every operator.",
    "profile": "A layer file for a model that never ran, from its configuration.",
    "config": "The defaults of options in your evenflow.toml, and which verbs take them.",
    "quick-tune": "The SAPP guide's rule of thumb for few ranks, step by step, beside the optimum.",
}
"""Every verb with its sentence in the help; `evenflow.cli.verbs.VERB` has the command, with `_` for `-`."""

WITH_TORCH = ("run", "auto", "profile")
"""Those of the package evenflow-torch, which joins by entry points as any other package does."""


class Verbs(click.Group):
    """Loads a verb when it is called, so that ``evenflow --help`` answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the verbs in the order of the help: evenflow's own, then those of other packages."""
        return [*VERBS, *(name for name in joining.entry_points_of(joining.VERBS) if name not in VERBS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the verb, imported now."""
        if cmd_name in VERBS and cmd_name not in WITH_TORCH:
            name = cmd_name.replace("-", "_")
            command = getattr(importlib.import_module(f"evenflow.cli.verbs.{name}"), name)
            assert isinstance(command, click.Command)
            return with_language(command)
        point = joining.entry_points_of(joining.VERBS).get(cmd_name)
        if point is not None:
            return with_language(joining.loaded(point, click.Command))
        if cmd_name in WITH_TORCH:
            raise needs_torch_house(place=f"evenflow {cmd_name}")
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb, which gets the defaults of the user's file, and its arguments.

        Words that people try ask for help and version too.
        """
        if args[0] == "help" and len(args) > 1:
            return self.resolve_command(ctx, [args[1], "--help"])
        if args[0] in ("help", "version"):
            click.echo(ctx.get_help() if args[0] == "help" else f"evenflow, version {evenflow.__version__}")
            ctx.exit()
        near = nearest(args[0], self.list_commands(ctx)) if self.get_command(ctx, args[0]) is None else ""
        if near:
            ctx.fail(_("No such command '{name}'; did you mean {near}?", name=args[0], near=near))
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            use_defaults(ctx, name, command)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs, without importing evenflow's own."""
        others = [name for name in self.list_commands(ctx) if name not in VERBS]
        with formatter.section(_("Commands")):
            formatter.write_dl([*VERBS.items(), *((name, self._sentence(ctx, name)) for name in others)])

    def _sentence(self, ctx: click.Context, name: str) -> str:
        """Return what the help says of a verb of another package: that it cannot be loaded, where it cannot."""
        try:
            command = self.get_command(ctx, name)
        except InputError as error:
            return error.message
        return "" if command is None else command.get_short_help_str(limit=100)

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line and exit with its status; without `args`, run the process's own and listen for signals."""
        if args is None:
            watch()
        extra["standalone_mode"] = False
        with speaking_as_asked(sys.argv[1:] if args is None else args):
            run_command(lambda: super(Verbs, self).main(args, *rest, **extra))


@click.group(cls=Verbs, invoke_without_command=True)
@click.version_option(evenflow.__version__, prog_name="evenflow")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Plan pipeline-parallel training: cut, recomputation and order of work, with a proof of how good the plan is.

    \b
    Example:
      evenflow plan layers.json --ranks 8 --microbatches 32 --memory 56GB --svg plan.svg
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


with_language(main)
