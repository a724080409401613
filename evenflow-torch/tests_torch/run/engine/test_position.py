"""What a rank does, as the message of a failure tells it."""

from evenflow.schedule import Op
from evenflow_torch.run.engine.position import Position


def test_places_in_a_step() -> None:
    position = Position()
    assert position.text() == "before the first action of the step"
    position.begin(Op.F, 2, 5)
    assert position.text() == "in the forward of microbatch 5 of stage 2"
    position.begin_loss()
    assert position.text() == "in the loss of microbatch 5 of stage 2"
    position.end()
    assert position.text() == "after the loss of microbatch 5 of stage 2"
    position.begin(Op.I, 2, 5)
    assert position.text() == "in the input gradient of microbatch 5 of stage 2"
