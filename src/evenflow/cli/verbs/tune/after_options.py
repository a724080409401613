"""The options of ``evenflow tune`` for what is asked after the ranking."""

from dataclasses import dataclass
from pathlib import Path

from evenflow import ranges
from evenflow.asking import optional
from evenflow.cli.shared.targets.target_file import TargetFile
from evenflow.cli.shared.targets.target_options import TargetName
from evenflow.errors import InputError
from evenflow.language import _, to_translate
from evenflow.targets.target import Target

_SECTION = to_translate("What is asked of the ranking")
_EXPLAIN = "--explain"
AUTO = "auto"
BASELINE, BASELINE_OF = "--baseline", "--baseline-of"


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterOptions:
    """What is asked after the ranking: an option for each field."""

    explain: int | None = optional(
        _EXPLAIN,
        ranges.ROWS,
        section=_SECTION,
        metavar="N",
        help="Say why row N is not the first, by part of the step.",
    )
    pareto: bool = optional(
        "--pareto",
        default=False,
        section=_SECTION,
        help="Set steps against memory, against numbers of devices, and with --baseline against what is changed.",
    )
    baseline_file: Path | None = optional(
        BASELINE,
        section=_SECTION,
        help="What you run today, as a file of your framework: it gets a row and a rank, and the reasons of its place.",
    )
    baseline_target: Target | None = optional(
        BASELINE_OF,
        section=_SECTION,
        kind=TargetName(),
        metavar="NAME",
        help="Framework of that file, where it cannot be told.",
    )
    neighbours: bool = optional(
        "--neighbours",
        default=False,
        section=_SECTION,
        help="Price every axis one step away from the first row, or say why that cannot be.",
    )
    refine: str | None = optional(
        "--refine",
        section=_SECTION,
        choices=(AUTO,),
        help="Say what shardings of every operator could still gain, as `evenflow auto` finds them.",
    )

    def check(self, *, rows: int) -> None:
        """Refuse a row that the table will not have, and a framework without a file; raises InputError."""
        if self.baseline_file is None and self.baseline_target is not None:
            rule = _("must come with --baseline, the file that is of this framework")
            raise InputError(value=self.baseline_target.name, rule=rule, place=BASELINE_OF)
        if self.explain is None:
            return
        if self.explain == 1:
            rule = _("must be from 2: row 1 is the first")
            raise InputError(value=1, rule=rule, place=_EXPLAIN)
        if self.explain > rows:
            rule = _("must be at most the {rows} rows of the table", rows=rows)
            remedy = _("add --rows {rows}", rows=self.explain)
            raise InputError(value=self.explain, rule=rule, place=_EXPLAIN, remedy=remedy)

    @property
    def names(self) -> tuple[str, ...]:
        """What is solved after the ranking, in the order in which it is answered."""
        asked = {
            "baseline": self.baseline_file is not None,
            "neighbours": self.neighbours,
            "pareto": self.pareto,
            "refine": self.refine == AUTO,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)

    def baseline(self) -> TargetFile | None:
        """Return what the user runs, of the framework that it is of.

        Raises:
            InputError: a file that cannot be read, or whose framework cannot be told.
        """
        if self.baseline_file is None:
            return None
        return TargetFile.read(self.baseline_file, self.baseline_target, option=BASELINE_OF, does="read_degrees")
