"""Networks of equal layers, with numbers that a person can check, and the configuration of a small model."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network, StageRule
from evenflow.units import MEGABYTE, NANOSECONDS_PER_MILLISECOND

MILLISECOND = NANOSECONDS_PER_MILLISECOND
NOTHING = EndBlock()

SMALL_LLAMA: dict[str, object] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320,
}  # fmt: skip


def equal_network(
    num_layers: int,
    *kinds: str,
    forward_ns: int = 1,
    backward_ns: int = 2,
    parameter_bytes: int = 1,
    activation_bytes: int = 1,
) -> Network:
    """Layers that cost the same under every one of `kinds` as under none, and nothing else."""
    modes = {kind: Mode(activation_bytes=activation_bytes, backward_ns=backward_ns) for kind in ("none", *kinds)}
    layer = Layer(name="layer", forward_ns=forward_ns, parameter_bytes=parameter_bytes, modes=modes)
    return Network(name="equal", runs=(LayerRun(layer=layer, count=num_layers),))


def plain_network(
    num_layers: int = 8, *kinds: str, head: EndBlock = NOTHING, tail: EndBlock = NOTHING, constant_bytes: int = 0
) -> Network:
    """Layers of 10 ms forward, 20 ms backward, 50 MB of parameters and 100 MB of activations.

    `full` keeps 10 MB and takes 30 ms; `select`, where it is among `kinds`, keeps 70 MB and takes 22 ms.
    """
    modes = {
        "none": Mode(activation_bytes=100 * MEGABYTE, backward_ns=20 * MILLISECOND),
        "select": Mode(activation_bytes=70 * MEGABYTE, backward_ns=22 * MILLISECOND),
        "full": Mode(activation_bytes=10 * MEGABYTE, backward_ns=30 * MILLISECOND),
    }
    chosen = {kind: mode for kind, mode in modes.items() if kind in ("none", "full", *kinds)}
    layer = Layer(name="layer", forward_ns=10 * MILLISECOND, parameter_bytes=50 * MEGABYTE, modes=chosen)
    runs = (LayerRun(layer=layer, count=num_layers),)
    return Network(name="plain", runs=runs, head=head, tail=tail, constant_bytes=constant_bytes)


def alone_together(layers: Sequence[Layer]) -> list[Layer]:
    """The layers, with the rule `alone` for all that stay with one of which it is: other networks are refused."""
    kept: list[list[Layer]] = []
    for layer in layers:
        if layer.cut_before or not kept:
            kept.append([])
        kept[-1].append(layer)
    return [
        replace(layer, stage_rules=layer.stage_rules | {StageRule.ALONE}) if is_alone else layer
        for block in kept
        for is_alone in [any(StageRule.ALONE in layer.stage_rules for layer in block)]
        for layer in block
    ]
