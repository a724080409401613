"""ZB-H1: 1F1B whose weight gradients wait to fill the cooldown. [ZeroBubble, arXiv:2401.10241, §2.1]"""

from evenflow.schedule.schedule import Schedule
from evenflow.schedule.zb_turns import zb_turns


def zb_h1(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """Return ZB-H1: 1F1B with split backwards, where every weight gradient of rank r waits for r more input gradients.

    ::

        rank 0  F0 F1    I0 W0 F2 I1 W1    I2 W2
        rank 1     F0 I0 F1 I1 W0 F2 I2 W1 W2

    Rank r runs r forwards less ahead than rank 0 and holds r weight gradients back, so no rank keeps more microbatches
    than rank 0 of 1F1B. With equal times and enough microbatches a rank idles ``(num_ranks - 1) (F + I - W)``, a third
    of 1F1B's. With a sequence in k parts the warm-up is k - 1 longer, as in 1F1B.
    """
    return zb_turns(
        name="zb-h1",
        ahead=1,
        num_ranks=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
    )
