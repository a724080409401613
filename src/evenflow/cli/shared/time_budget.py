"""How a command keeps its time limit: what comes before the search and the files behind it are in it too."""

from dataclasses import dataclass

from evenflow.cli.shared.files.output_files import HTML, Outputs
from evenflow.solve.time_left import TimeLeft

_LEAST_SHARE = 0.1
"""Of the limit, what a search has at least: files of many actions could need all of it."""
_ACTION_SECONDS = 7e-7
"""For each action of a step, behind the search: it ends within a simulation, and the answer is simulated again."""
_PAGE_SHARE = 0.2
_MOST_PAGE_SECONDS = 10.0
"""What a page keeps for what memory is worth and for what frameworks run, where the search takes all it has."""
_MOST_PART_SECONDS = 10.0
"""Most seconds for each of these two parts, where the search leaves so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBudget:
    """The time limit of a command, shared by its search and what follows it."""

    limit_s: float
    left: TimeLeft
    behind_s: float
    """Seconds that the answer and its files will need."""
    files_s: float
    """Seconds to write the files."""

    @classmethod
    def of(cls, limit_s: float, outputs: Outputs, *, num_actions: int) -> "TimeBudget":
        """Return the budget of a command that writes timelines of so many actions in all."""
        files_s = outputs.needed_seconds(num_actions)
        behind_s = files_s + _ACTION_SECONDS * num_actions
        if outputs.has(HTML):
            behind_s += min(_PAGE_SHARE * limit_s, _MOST_PAGE_SECONDS)
        return cls(limit_s=limit_s, left=TimeLeft.of_command(limit_s), behind_s=behind_s, files_s=files_s)

    @property
    def search_s(self) -> float:
        """Seconds for the search from now on."""
        return max(_LEAST_SHARE * self.limit_s, self.left.seconds - self.behind_s)

    @property
    def decision_s(self) -> float:
        """Seconds from now on for each of the two parts of a page that search, before the files are written."""
        return min(_MOST_PART_SECONDS, max(0.0, self.left.seconds - self.files_s) / 2)
