"""Sharding rules of operators on (samples, channels, …): convolutions, pools, batch and group norm."""

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.auto.sharding.rules.named_arguments import argument, in_dimensions, rule, whole
from evenflow_torch.models.trace.dtensor_adapter import Call
from evenflow_torch.models.trace.operator_graph import AxisRule

BATCH, CHANNELS = 0, 1


def convolution(call: Call) -> set[AxisRule]:
    """Split samples, output channels, input channels (a partial sum), or both if each channel has its own filter."""
    rules = {whole(call), rule(call, {"input": BATCH}, (BATCH,))}
    made, taken = _filters(call)
    if argument(call, "groups") == 1:
        rules.add(rule(call, {"weight": made, "bias": 0}, (CHANNELS,)))
        if argument(call, "bias") is None:
            rules.add(rule(call, {"input": CHANNELS, "weight": taken}, (PARTIAL,)))
    elif _is_depthwise(call):
        rules.add(rule(call, {"input": CHANNELS, "weight": 0, "bias": 0}, (CHANNELS,)))
    return rules


def convolution_backward(call: Call) -> set[AxisRule]:
    """Split the backward of `convolution` as its forward; gradients that are not asked for stay whole."""
    is_wanted = argument(call, "output_mask")

    def made(*outputs: int) -> tuple[int, ...]:
        return tuple(split if wanted else REPLICATE for split, wanted in zip(outputs, is_wanted, strict=True))

    rules = {
        whole(call),
        rule(call, {"grad_output": BATCH, "input": BATCH}, made(BATCH, PARTIAL, PARTIAL)),
    }
    gives, taken = _filters(call)
    if argument(call, "groups") == 1:
        rules.add(rule(call, {"grad_output": CHANNELS, "weight": gives}, made(PARTIAL, gives, 0)))
        rules.add(rule(call, {"input": CHANNELS, "weight": taken}, made(CHANNELS, taken, REPLICATE)))
    elif _is_depthwise(call):
        splits = {"grad_output": CHANNELS, "input": CHANNELS, "weight": 0}
        rules.add(rule(call, splits, made(CHANNELS, 0, 0)))
    return rules


def batch_norm(call: Call) -> set[AxisRule]:
    """Split channels; or samples, each device with statistics of its own, as in torch's data parallelism.

    Statistics that the backward needs stay apart like partial sums; running ones are each device's own.
    """
    of_channels = dict.fromkeys(("weight", "bias", "running_mean", "running_var"), 0)
    running = call.num_outputs - 3
    kept = PARTIAL if argument(call, "training") else REPLICATE
    return {
        whole(call),
        rule(call, {"input": CHANNELS} | of_channels, (CHANNELS, 0, 0, *(0,) * running)),
        rule(call, {"input": BATCH}, (BATCH, kept, kept, *(REPLICATE,) * running)),
    }


def batch_norm_backward(call: Call) -> set[AxisRule]:
    """Split the backward of `batch_norm` as its forward."""
    statistics = ("save_mean", "save_invstd")
    of_channels = dict.fromkeys(("weight", "running_mean", "running_var", *statistics), 0)
    own = dict.fromkeys(statistics, PARTIAL if argument(call, "train") else REPLICATE)
    return {
        whole(call),
        rule(call, {"grad_out": CHANNELS, "input": CHANNELS} | of_channels, (CHANNELS, 0, 0)),
        rule(call, {"grad_out": BATCH, "input": BATCH} | own, (BATCH, PARTIAL, PARTIAL)),
    }


def group_norm_backward(call: Call) -> set[AxisRule]:
    """Split samples."""
    splits = dict.fromkeys(("grad_out", "input", "mean", "rstd"), BATCH)
    return {whole(call), rule(call, splits, (BATCH, PARTIAL, PARTIAL))}


def each_image(call: Call) -> set[AxisRule]:
    """Split samples and channels, the dimensions before height and width."""
    sides = 3 if "3d" in str(call.overload) else 1 if "1d" in str(call.overload) else 2
    return in_dimensions(call, range(len(call.tensors()[0].shape) - sides))


def _filters(call: Call) -> tuple[int, int]:
    """Return the dimensions of a filter that stand for output channels and for input channels."""
    return (1, 0) if argument(call, "transposed") else (0, 1)


def _is_depthwise(call: Call) -> bool:
    """Tell whether each channel that goes in has filters of its own: then any split of them splits the groups."""
    return bool(argument(call, "groups") == argument(call, "input").shape[CHANNELS])
