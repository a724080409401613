"""``--baseline``: what the user runs today, read from the framework's own file and simulated."""

from dataclasses import dataclass, replace

import click

from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.shared.targets.target_file import TargetFile, changed_lines, count_changed, print_notes
from evenflow.cli.shared.targets.target_text import beside_text, block_text
from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.model import Communication, Network
from evenflow.schedule import FAMILIES, schedule_of
from evenflow.simulate import Simulation, compared_families, simulate
from evenflow.targets.baseline_sets import in_offered_kinds, with_own_counts
from evenflow.targets.further_tokens import with_mtp_last
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Baseline, GivenSizes, Target
from evenflow.units import megabytes, milliseconds

YOURS = "yours"
"""Name of the baseline among the plans."""
BASELINE, BASELINE_OF = "--baseline", "--baseline-of"


@dataclass(frozen=True, kw_only=True)
class GivenBaseline:
    """A file of the user's framework, and the plan that it asks for."""

    file: TargetFile
    baseline: Baseline

    @classmethod
    def read(cls, file: TargetFile, sizes: GivenSizes) -> "GivenBaseline":
        """Read the plan of a file; raises InputError where it cannot be told."""
        assert file.target.read is not None
        baseline = file.target.read(file.text, str(file.path), sizes)
        if not baseline.plan.mtp_layers:  # the framework does not count them
            baseline = replace(baseline, plan=with_mtp_last(baseline.plan, sizes.mtp_layers))
        return cls(file=file, baseline=baseline)

    def of_network(self, network: Network) -> "GivenBaseline":
        """Return the same for the layers of `network`, with the kinds that they offer."""
        return replace(self, baseline=with_own_counts(in_offered_kinds(self.baseline, network.kinds), network))

    @property
    def target(self) -> Target:
        """The framework that the file is of."""
        return self.file.target

    @property
    def version(self) -> str:
        """The version of the framework that is planned for: that of the file, or the newest."""
        return self.file.version

    def simulated(self, network: Network, communication: Communication | None) -> NamedPlan:
        """Return the plan with its simulation; raises InputError where it is not one of the network."""
        plan = self.baseline.plan
        if plan.num_layers != network.num_layers:
            raise InputError(
                value=plan.num_layers,
                rule=_("must be the {count} body layers of the layer file", count=network.num_layers),
                place=_("{file}: number of layers", file=self.file.path),
            )
        alone = network.without_keepers()  # no framework has any
        as_run = self.target.abilities(self.version).as_run(alone, title=self.target.title)
        simulation = simulate(as_run, plan, communication=communication)
        return NamedPlan(name=YOURS, simulation=simulation, picture=f"{YOURS}.svg")

    def print_notes(self) -> None:
        """Say what was assumed, and name what was not understood."""
        print_notes(self.file, notes=self.baseline.notes, unknown=self.baseline.unknown)

    def note_fields(self) -> dict[str, object]:
        """Return the same as fields, for the file of numbers."""
        return {
            "notes": list(self.baseline.notes),
            "not_understood": list(self.baseline.unknown),
        }

    def in_pairs(self, yours: Simulation, limit: int | None) -> str:
        """Return what the plan would take with forwards beside backwards, which the framework can run but the file
        does not ask for; empty where that is not so, or would hide nothing.
        """
        plan, abilities = self.baseline.plan, self.target.abilities(self.version).with_equal_pairs
        compared = compared_families(yours.network, yours.communication)
        name = next(
            (
                name
                for name in abilities.schedules
                if name in compared
                and FAMILIES[name].has_pairs
                and not any(abilities.refusals(plan.sizes, name, title=self.target.title))
            ),
            None,
        )
        if name is None or schedule_of(plan).has_pairs or plan.order:
            return ""
        paired = replace(plan, schedule=name)
        refused = refusal(paired, abilities, title=self.target.title)
        if refused is not None:
            reason = InputError(value=refused.value, rule=refused.rule, place=refused.place)
            return _(
                "note: {title} can hide exchanges between experts with {schedule}, but not under your plan: {reason}; "
                "--schedule best looks for another",
                title=self.target.title,
                schedule=name,
                reason=str(reason),
            )
        simulation = simulate(yours.network, paired, communication=yours.communication)
        return _(
            "note: with {schedule} your plan would take {figures} ({change:+.1f} %); --schedule best plans with it",
            schedule=name,
            figures=_figures(simulation, limit),
            change=100 * (simulation.makespan_ns / yours.makespan_ns - 1),
        )

    def advice(self, yours: Simulation, recommended: Simulation, limit: int | None) -> str:
        """Return both plans in a sentence, and what to change in the file."""
        both = _(
            "{title}: yours {yours}; recommended {recommended}",
            title=self.target.title,
            yours=_figures(yours, limit),
            recommended=_figures(recommended, limit),
        )
        if yours.fits(limit) and yours.makespan_ns <= recommended.makespan_ns:
            return _("{both}; keep yours", both=both)
        return f"{both}\n\n{self._changes(recommended)}"

    def _changes(self, recommended: Simulation) -> str:
        plan = recommended.plan
        if self.target.apply is not None:
            try:
                after = self.file.applied(plan)
                beside = beside_text(self.target.written(plan, self.version))
            except InputError as error:
                click.echo(_("note: the file cannot be edited; {reason}", reason=str(error)), err=True)
            else:
                lines = changed_lines(self.file.text, after, old=self.file.path, new=self.file.beside("planned"))
                change = _n(
                    "change this line of {file}:",
                    "change these {count} lines of {file}:",
                    count=count_changed(self.file.text, after),
                    file=self.file.path,
                )
                return "\n\n".join(filter(None, (f"{change}\n{lines}", beside)))
        return block_text(self.target, self.version, plan)


def _figures(simulation: Simulation, limit: int | None) -> str:
    """Return time and memory, such as ``1,762.0 ms and 61.0 GB on rank 0``."""
    step = f"{milliseconds(simulation.makespan_ns):,.1f} ms"
    if not simulation.network.has_memory:
        return step
    peak = max(simulation.peak_memory_bytes)
    rank = simulation.peak_memory_bytes.index(peak)
    figures = _("{step} and {peak} on rank {rank}", step=step, peak=_size(peak), rank=rank)
    if limit is None:
        return figures
    amounts = {"figures": figures, "limit": _size(limit)}
    return _("{figures}, within {limit}", **amounts) if peak <= limit else _("{figures}, over {limit}", **amounts)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f} GB" if size_bytes >= 2**30 else f"{megabytes(size_bytes):,.0f} MB"
