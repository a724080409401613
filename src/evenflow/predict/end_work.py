"""The operators and exchanges of the embedding, and of the last norm, output layer and loss."""

from evenflow.model import FULL
from evenflow.predict.layer_parts import Addition
from evenflow.predict.layer_work import addition_passes, layer_passes
from evenflow.predict.parameters import padded_vocabulary
from evenflow.predict.passes import HALF, SINGLE, Passes, sum_over_tensor, tokens
from evenflow.predict.tower import TowerPart, tower_parts
from evenflow.predict.training import Training
from evenflow.predict.work import Exchange, Work, elementwise, gradients, product


def head_passes(training: Training) -> Passes:
    """Return the passes of the embedding, and of the encoders in front of it."""
    passes = embedding_passes(training)
    for part in tower_parts(training):
        passes += tower_passes(part)
    return passes


def tower_passes(part: TowerPart) -> Passes:
    """Return the passes of parts of an encoder, together."""
    if isinstance(part.part, Addition):
        passes = addition_passes(part.training, part.part)
        passes = passes if part.is_trained else Passes(passes.forward, ())
    else:
        passes = layer_passes(part.training, part.part)
        if part.kind == FULL and passes.backward:
            passes = Passes(passes.forward, passes.forward + passes.backward)
    return Passes(passes.forward * part.count, passes.backward * part.count)


def embedding_passes(training: Training) -> Passes:
    """Return the passes of the embedding: a lookup, and a sum over the devices that hold parts of the table."""
    passed = HALF * tokens(training) * training.model.hidden
    forward: list[Work] = [elementwise(2 * passed, 2, "embedding"), *_sum_over_tensor(training, passed)]
    passes = Passes(tuple(forward), (elementwise(3 * passed, 3, "embedding"),))
    for addition in training.model.head_additions:
        passes += addition_passes(training, addition)
    return passes if training.model.trains_ends[0] else Passes(passes.forward, ())


def tail_passes(training: Training) -> Passes:
    """Return the passes of the last norm, the output layer in 16 bits and the loss in 32.

    Blocks that predict further tokens run here too, each with an output layer and a loss of its own.
    """
    everything = output = output_passes(training)
    for _token in range(training.model.predicted_tokens):
        everything = everything + mtp_passes(training) + output
    return everything


def mtp_passes(training: Training) -> Passes:
    """Return the passes of a block that predicts a further token, without its output layer and its loss."""
    here, hidden = tokens(training), training.model.hidden
    joined = Passes(
        (product(here, hidden, 2 * hidden, dtype=training.wide_format, module="mtp"),),
        tuple(gradients(here, hidden, 2 * hidden, dtype=training.wide_format, module="mtp")),
    )
    return joined + layer_passes(training, training.model.further_kind)


def output_passes(training: Training) -> Passes:
    """Return the passes of the last norm, the output layer in 16 bits and the loss in 32, for one token of each."""
    model, degrees = training.model, training.degrees
    here = tokens(training)
    own = padded_vocabulary(training) / degrees.tensor
    logits = here * own
    passed = HALF * here * model.last_width
    forward: tuple[Work, ...] = (
        elementwise(2 * passed, 1, "norm"),
        product(here, own, model.last_width, dtype=training.wide_format, module="output"),
        elementwise(logits * (HALF + SINGLE + 3 * SINGLE), 5, "loss"),
        *_sum_over_tensor(training, 3 * SINGLE * here),
    )
    of_output = gradients(here, own, model.last_width, dtype=training.wide_format, module="output")
    if not model.trains_ends[1]:
        del of_output[1]  # the gradient of the weight
    backward: tuple[Work, ...] = (
        elementwise(logits * (2 * SINGLE + HALF), 3, "loss"),
        *of_output,
        *_sum_over_tensor(training, passed),
        elementwise(3 * passed, 2, "norm"),
    )
    output = Passes(forward, backward)
    for addition in model.tail_additions:
        output += addition_passes(training, addition)
    return output


def _sum_over_tensor(training: Training, size_bytes: float) -> tuple[Exchange, ...]:
    return (sum_over_tensor(training, size_bytes, "ends"),) if training.degrees.tensor > 1 else ()
