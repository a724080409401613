"""How frameworks implement the same mathematics, where a run does not say otherwise."""

from evenflow.predict.recipes import TENSORWISE
from evenflow.predict.training import Software
from evenflow.predict.vocabulary import PORTABLE_ATTENTION


def usual_software(
    precision: str, *, is_portable: bool = False, sends_whole: bool = False, overlaps_one_chunk: bool = False
) -> Software:
    """Return the usual software settings of a framework, for a number format of the linear layers.

    `is_portable`: its kernels are PyTorch's own, uncompiled, and not those that Megatron-LM has for the accelerator;
    numbers in 8 bits have one scale for a tensor, as in torchao, and not the delayed one of Megatron-LM.
    `sends_whole`: every tensor-parallel rank sends a whole pipeline message, and a rank sends and receives in turn, as
    DeepSpeed's pipeline engine does. `overlaps_one_chunk`: messages are sent under computation with one chunk too.
    """
    return Software(
        attention_slowdown=PORTABLE_ATTENTION if is_portable else 1.0,
        fused_elementwise=not is_portable,
        fused_loss=not is_portable,
        overlaps_one_chunk=overlaps_one_chunk,
        splits_messages=not sends_whole,
        messages_in_turn=sends_whole,
        gradient_bytes=2 if precision == "fp16" else 4,
        reduced_bytes=4 if precision in ("bf16", "fp32") else 2,
        recipe=TENSORWISE if is_portable and precision == "fp8" else "",
    )
