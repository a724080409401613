"""What ``evenflow tune`` answers after the ranking: text, and the fields of its JSON file."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evenflow.cli.text.tune_explain_text import explain_text
from evenflow.cli.verbs.tune.after_options import AfterOptions
from evenflow.export.results.tune_answers import difference_fields
from evenflow.language import _n
from evenflow.tune.explain import Difference, difference
from evenflow.tune.ties import tied
from evenflow.tune.tuned import Tuned


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to what was asked of a ranking."""

    tuned: Tuned
    asked: AfterOptions

    def text(self) -> Iterator[str]:
        """Yield a paragraph for each answer."""
        number, ranked = self.asked.explain, self.tuned.ranked
        if number is not None:
            if self._explained is not None:
                is_tied = ranked[number - 1] in tied(ranked)
                yield explain_text(self._explained, first="#1", other=f"#{number}", is_tied=is_tied)
            else:
                yield _n(
                    "--explain {number}: the ranking has only 1 row",
                    "--explain {number}: the ranking has only {count} rows",
                    count=len(ranked),
                    number=number,
                )

    def fields(self) -> dict[str, object]:
        """Return the fields of the answers."""
        if self._explained is None:
            return {}
        return {"explained": {"rank": self.asked.explain, **difference_fields(self._explained)}}

    @cached_property
    def _explained(self) -> Difference | None:
        """Why the row that was asked for is not the first; None without one."""
        number, ranked = self.asked.explain, self.tuned.ranked
        if number is None or number > len(ranked):
            return None
        return difference(ranked[0], ranked[number - 1])
