"""Refusals of impossible sizes in a model's configuration, before anything is built from them."""

from evenflow.fields import Fields, as_fields, is_integer, is_integer_list
from evenflow.ranges import MODEL_LAYERS, MODEL_SIZE, Range

_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)
"""Sizes that every model has where it names them; others may be zero for none."""
_OF_LAYERS = frozenset(("intermediate_size", "num_attention_heads", "num_key_value_heads"))
"""Those that may be a list with one for each layer."""
_OTHER = Range(least=-(10**9), most=10**12)
_SOME_LAYERS = Range(least=0, most=MODEL_LAYERS.most)


def check_config_sizes(config: Fields, *, vocabulary: Range = MODEL_SIZE) -> None:
    """Refuse a configuration without the text `model_type`, or with integers outside of their ranges.

    `vocabulary` is the range of the number of words, wider where more than memory holds is refused in bytes.
    Building a model takes a module for each layer, so their number is bounded, under whichever name it stands.
    """
    config.text("model_type")
    ranges = {"num_hidden_layers": MODEL_LAYERS, "vocab_size": vocabulary}
    waiting = [config]
    while waiting:
        fields = waiting.pop()
        for key in _SIZES:
            if is_integer_list(fields.values.get(key)) and key in _OF_LAYERS:
                fields.integers(key, MODEL_SIZE)
            elif fields.values.get(key) is not None:
                fields.integer(key, ranges.get(key, MODEL_SIZE))
        for key, value in fields.values.items():
            if isinstance(value, dict):
                waiting.append(as_fields(value, file=config.file, path=f"{fields.path}.{key}".lstrip(".")))
            elif is_integer(value):
                fields.integer(key, _SOME_LAYERS if key.endswith("layers") or key == "n_layer" else _OTHER)
