"""What a rank does at this moment, for the messages of a failure."""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.schedule import Op


@dataclass(slots=True)
class Position:
    """The action that a rank began last in this step."""

    op: Op | None = None
    """None before the first action."""
    stage: int = 0
    microbatch: int = 0
    is_running: bool = False
    """Whether the action has not ended; else the rank waits for a message."""
    is_loss: bool = False
    """Whether the loss behind a forward is being computed."""

    def begin(self, op: Op, stage: int, microbatch: int) -> None:
        """Note that an action begins to compute."""
        self.op, self.stage, self.microbatch = op, stage, microbatch
        self.is_running, self.is_loss = True, False

    def begin_loss(self) -> None:
        """Note that the loss of the microbatch begins, whose forward has ended."""
        self.is_running = self.is_loss = True

    def end(self) -> None:
        """Note that the action has ended."""
        self.is_running = False

    def text(self) -> str:
        """Return the place: "in the forward of microbatch 3 of stage 1", counted from 0."""
        if self.op is None:
            return _("before the first action of the step")
        names = {
            Op.F: _("forward"),
            Op.B: _("backward"),
            Op.I: _("input gradient"),
            Op.W: _("weight gradient"),
        }
        work = _("loss") if self.is_loss else names[self.op]
        if self.is_running:
            return _(
                "in the {work} of microbatch {microbatch} of stage {stage}",
                work=work,
                microbatch=self.microbatch,
                stage=self.stage,
            )
        return _(
            "after the {work} of microbatch {microbatch} of stage {stage}",
            work=work,
            microbatch=self.microbatch,
            stage=self.stage,
        )
