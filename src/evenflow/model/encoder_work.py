"""Encoders in front of a decoder whose work any rank can do, beside the pipeline of the decoder."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import MODEL_SIZE, TIME_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderWork:
    """What encoders do in a step, in equal parts, each the images or sounds of a microbatch or a share of them.

    Every rank has all encoders. A part is done by one rank, without a break; its tokens go to the first stage, whose
    forward waits for all parts of its microbatch. Its gradients come from there, and the encoder runs again for its
    backward: in between it keeps nothing.
    """

    parts: int
    """Equal parts of a microbatch."""
    forward_ns: int
    """Time of one part on the fastest rank."""
    backward_ns: int
    """Time of its backward, with the forward that is computed again for it; 0 where nothing is trained."""
    message_ns: int = 0
    """Time that the tokens of one part take on the link of the first stage, one part after the other; their gradients
    take as long.
    """
    summed_ns: int = 0
    """Time in which the ranks add up their gradients of the encoders, behind the last backward."""
    in_bubbles: bool = False
    """Whether ranks do it while they would wait in the pipeline too, instead of before and behind the pipeline alone.
    """

    def __post_init__(self) -> None:
        MODEL_SIZE.check(self.parts, place=_("the parts of what encoders do for a microbatch"))
        for time_ns, place in (
            (self.forward_ns, _("the forward of encoders")),
            (self.backward_ns, _("the backward of encoders")),
            (self.message_ns, _("the message of encoders")),
            (self.summed_ns, _("adding up the gradients of encoders")),
        ):
            TIME_NS.check(time_ns, place=place)
        if not self.forward_ns:
            raise InputError(
                value=0, rule=_("must take some time"), place=_("the forward of encoders"), remedy=_("give its time")
            )
