"""Usual rules that choose degrees, as scores of a training on its devices: the least is the choice.

They stand beside evenflow's predictions and know no less of the accelerator: what it reaches is the same for all.
"""

from collections.abc import Callable, Mapping

from evenflow.cluster.topology import Topology
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import model_parameters
from evenflow.predict.training import FORMATS, Sharding, Training

Score = tuple[float, ...]
"""Compared from the first number on."""
Rule = Callable[[Training, Topology], Score]
_FULL = 4 / 3
"""Work with all layers recomputed, over that without: one more forward beside a forward and a backward of twice that.
[Megatron-LM, arXiv:2104.04473, equation 3]"""
_BYTES = 2
"""Of a number that is passed on."""
_GRADIENT_BYTES = 4
_REDUCES = 4
"""All-reduces of a layer, of as many bytes as its input: two forward, two backward. [Megatron-LM, arXiv:2104.04473]"""


def bubble_formula(training: Training, topology: Topology) -> Score:
    """Operations at the same rate everywhere, stages that are equal, and the bubble (p - 1) / (v m).

    Recomputation is one number. [Megatron-LM, arXiv:2104.04473, section 2.2]
    """
    return (_compute_s(training, topology) * (1 + _bubble(training)),)


def rule_of_thumb(training: Training, topology: Topology) -> Score:
    """As little model parallelism as fits: tensor within a node first, then a pipeline, then more chunks.

    Then the largest microbatch. What was measured fits. [Megatron-LM, arXiv:2104.04473, takeaways 1 to 3]
    """
    degrees = training.degrees
    is_across = degrees.tensor > topology.domain_devices
    split = degrees.tensor * degrees.context * degrees.pipeline
    recomputes = {"none": 0, "full": 2}.get(training.recompute, 1)
    return (is_across, split, degrees.pipeline, recomputes, -degrees.chunks, -training.microbatch)


def cost_formula(training: Training, topology: Topology) -> Score:
    """Operations and bytes by closed formulas: layers that are equal, collectives at their rates, and the bubble.

    What Calculon [Isaev et al., SC 2023] and llm-analysis [Li, 2023] add to the bubble: the collectives of tensor
    parallelism, messages between stages and the gradients of a step, none of them hidden.
    """
    degrees, model = training.degrees, training.model
    link, network = topology.rates()
    domain = topology.domain_devices

    def rate(devices: int) -> float:
        return link if devices <= domain else network

    input_bytes = training.microbatch * training.sequence / degrees.context * model.hidden * _BYTES
    layers = model.layers / degrees.pipeline
    tensor = degrees.tensor
    reduces = _REDUCES * (1.5 if training.recompute == "full" else 1)
    tensor_s = reduces * layers * input_bytes * 2 * (tensor - 1) / tensor / rate(tensor)
    sent = 2 * input_bytes / tensor * degrees.chunks * (degrees.pipeline > 1)
    message_s = sent / rate(degrees.pipeline_stride * degrees.pipeline)
    work_s = _compute_s(training, topology) + training.microbatches * (tensor_s + message_s)
    held = model_parameters(model) / (tensor * degrees.pipeline)
    copies = degrees.data * degrees.context
    crossings = 3 if degrees.sharding is Sharding.PARAMETERS else 2
    gradient_s = held * _GRADIENT_BYTES * crossings * (copies - 1) / copies / rate(tensor * copies)
    return (work_s * (1 + _bubble(training)) + gradient_s,)


RULES: Mapping[str, Rule] = {
    "bubble formula": bubble_formula,
    "rule of thumb": rule_of_thumb,
    "cost formula": cost_formula,
}


def _compute_s(training: Training, topology: Topology) -> float:
    """Return the time of a device's operations in a step."""
    accelerator = topology.accelerator
    rate = accelerator.rate(FORMATS[training.precision]) * accelerator.reached.product_share
    recomputed = _FULL if training.recompute == "full" else 1.0
    return recomputed * model_flops(training) / training.degrees.devices / rate


def _bubble(training: Training) -> float:
    degrees = training.degrees
    return (degrees.pipeline - 1) / (degrees.chunks * training.microbatches)
