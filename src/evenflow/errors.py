"""Everything evenflow raises on purpose.

EvenflowError
├── RunError         a rank of a run failed: its message (exit status 1)
├── MismatchError    the A/A check found work that came out differently the second time (exit status 5)
├── InputError       a value the caller gave breaks a rule (exit status 2)
│   └── ScheduleError    an order of work that is incomplete or can never finish
└── Interrupted      stopped by the user before there was any plan (exit status 130)
"""


class EvenflowError(Exception):
    """The root: what a caller catches to handle every deliberate error."""


class InputError(EvenflowError):
    """A value breaks a rule. The message says value, rule, place and remedy."""

    def __init__(self, *, value: object, rule: str, place: str, remedy: str = "") -> None:
        self.value = value
        self.rule = rule
        self.place = place
        self.remedy = remedy
        message = f"{place}: {rule} (got {value!r})"
        super().__init__(f"{message}; {remedy}" if remedy else message)


class ScheduleError(InputError):
    """An order of actions that is incomplete, misplaced or deadlocked; `grid` shows the fault."""

    def __init__(self, *, value: object, rule: str, place: str, remedy: str = "", grid: str = "") -> None:
        super().__init__(value=value, rule=rule, place=place, remedy=remedy)
        self.grid = grid

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n{self.grid}" if self.grid else message


class RunError(EvenflowError):
    """A process of a run failed; the message names its rank and says why."""


class MismatchError(EvenflowError):
    """Re-executed work did not give the same bits; the message names rank, stage, microbatch and step."""


class Interrupted(EvenflowError):
    """The user stopped the work before a first plan was found."""
