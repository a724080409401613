"""Layers that tokens go through several times, from a configuration."""

from collections.abc import Callable, Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, Loop, Place
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.spellings import SPELLINGS, Configuration

BETWEEN, STACKS, CORE = "between", "stacks", "core"
"""Loops of layers between those of input and output, of two stacks in each other, of layers that get messages."""
_MLP = "mlp"


def with_own_layers(config: Configuration, loop: str) -> Configuration:
    """Return a configuration whose number of layers is that of the layers that it has, each once.

    Raises:
        InputError: a missing or wrong size.
    """
    if loop == BETWEEN and _MLP in config.texts("layer_types"):  # attention and MLP are listed apart
        names = ("layers", "input_layers", "recurrent_layers", "output_layers")
        sizes = {SPELLINGS[name][0]: size // 2 for name in names if (size := config.size(name)) is not None}
        return config.changed({**sizes, "layer_types": list(config.texts("layer_types")[::2])})
    if loop == STACKS:
        layers = 2 * (config.size("stack_layers") or config.required("layers"))
        return config.changed({"num_hidden_layers": layers, "num_key_value_heads": config.required("heads")})
    return config


def loops_of(config: Configuration, loop: str, *, layers: int) -> tuple[Loop, ...]:
    """Return the loops of a configuration that has such a `loop`; none for one without.

    Raises:
        InputError: a missing or wrong size, or loops that do not fit the number of layers.
    """
    loops = _LOOPS[loop](config, layers) if loop else ()
    return tuple(loop for loop in loops if loop.first < loop.end and loop.passes + loop.unkept > 1)


def looped_parts(config: Configuration, loop: str, loops: tuple[Loop, ...], *, layer: int, hidden: int) -> Further:
    """Return what a layer has because of loops: what goes into a pass and out of it, and messages between passes."""
    further = Further()
    for turn in loops if loop != CORE else ():
        if layer == turn.first:
            further += Further(layer=(Addition(name="residual", numbers=2 * hidden),))
        if layer == turn.end - 1 and loop == STACKS:
            further += Further(layer=(Addition(name="layernorm", numbers=hidden),))
    first, end = _core(config) if loop == CORE else (0, 0)
    if first <= layer < end:
        further += _messages(config, hidden=hidden, sources=(end - first) // config.required("residual_block"))
    return further


def _between(config: Configuration, layers: int) -> tuple[Loop, ...]:
    """Dory: layers between those of input and output."""
    before, after = config.required("input_layers"), config.required("output_layers")
    looped = config.size("recurrent_layers")
    looped = layers - before - after if looped is None else looped
    if looped < 0 or before + looped + after != layers:
        rule = _("must be the {layers} layers together with those of input and output", layers=layers)
        raise InputError(value=looped, rule=rule, place=config.fields.place("n_recurrent_layers"))
    return (Loop(first=before, end=before + looped, passes=config.required("loop_passes")),)


def _stacks(config: Configuration, layers: int) -> tuple[Loop, ...]:
    """HRM-Text: passes through a lower stack, of which only the last ones are trained, and one through a higher one."""
    outer, inner = config.step("H_cycles"), config.step("L_cycles")
    listed = config.integers("L_bp_cycles") if config.value("L_bp_cycles") is not None else [2]
    if min(listed, default=1) < 1:
        rule = _("must be integers of at least 1")
        raise InputError(value=listed, rule=rule, place=config.fields.place("L_bp_cycles"))
    trained = [1] * max(0, outer - len(listed)) + listed
    kept = sum(min(inner, trained[turn] if turn < len(trained) else 1) for turn in range(outer))
    half = layers // 2
    return (
        Loop(first=0, end=half, passes=kept, unkept=outer * inner - kept),
        Loop(first=half, end=layers, passes=outer, inner=True),
    )


def _core(config: Configuration) -> tuple[int, int]:
    """Return the first layer of the core of an Inkling 2 with a loop, and the one behind its last."""
    return config.required("loop_first"), config.required("loop_end")


def _cored(config: Configuration, layers: int) -> tuple[Loop, ...]:
    first, end = _core(config)
    if not first <= end <= layers:
        rule = _(
            "must be at least {first}, where the loop begins, and at most the {layers} layers",
            first=first,
            layers=layers,
        )
        raise InputError(
            value=end, rule=rule, place=config.fields.place(config.spelling("loop_end") or "loop_layer_index_end")
        )
    return (Loop(first=first, end=end, passes=config.required("loop_passes")),)


def _messages(config: Configuration, *, hidden: int, sources: int) -> Further:
    """Return what a layer of the core gets of the pass before: four messages, each mixed in through narrow gates.

    They are for queries, keys, values and the MLP, read from the blocks of layers of that pass. All but the first
    product is in 32 bits. [Inkling 2]
    """
    rank, messages = config.required("loop_rank"), 4
    gates = ((2 * hidden, rank), (rank, hidden), (rank, hidden)) * messages
    read = 2 * hidden * (sources + messages)
    return Further(
        layer=(
            Addition(
                name="messages", products=gates, numbers=read + messages * 8 * hidden, small=messages * hidden,
                place=Place.LAYER, after_first=True,
            ),
        )
    )  # fmt: skip


_LOOPS: Mapping[str, Callable[[Configuration, int], tuple[Loop, ...]]] = {
    BETWEEN: _between,
    STACKS: _stacks,
    CORE: _cored,
}
