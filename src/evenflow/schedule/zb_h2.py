"""ZB-H2: a longer warm-up than ZB-H1, and no rank waits between its actions. [ZeroBubble, arXiv:2401.10241, §2.2]"""

from evenflow.schedule.schedule import Schedule
from evenflow.schedule.zb_turns import zb_turns


def zb_h2(*, num_ranks: int, num_microbatches: int, sequence_splits: int = 1) -> Schedule:
    """Return ZB-H2: 1F1B with split backwards, where rank r starts with ``2 (num_ranks - r) - 1`` forwards.

    Every weight gradient of rank r waits for 2 r more input gradients.

    ::

        rank 0  F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
        rank 1     F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3

    With F = I = W a rank works without a gap from its first forward to its last weight gradient, at the price of
    ``2 num_ranks - 1`` live microbatches on every rank. The ranks still start one after the other, and here a step ends
    when the last one has finished. The paper lets early ranks begin their next step meanwhile, by an optimizer step
    that can be rolled back (§4); that is outside the order of one step.
    """
    return zb_turns(
        name="zb-h2",
        ahead=2,
        num_ranks=num_ranks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
    )
