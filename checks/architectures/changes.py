"""Fields of a configuration with other values, each of which must be read, or refused, as transformers builds it."""

from collections.abc import Iterator
from typing import Any

from evenflow.profiles.transformer.field_names import TEXT_PARTS

_LEFT = ("vocab_size", "num_hidden_layers", "max_position_embeddings", "model_type")
"""Fields whose change says nothing: those that every model has, and lists that would no longer fit."""
_NOT_BUILT = frozenset(
    (
        ("helium", "head_dim"), ("helium", "hidden_size"), ("helium", "num_attention_heads"),
        ("xlstm", "embedding_dim"), ("xlstm", "hidden_size"), ("xlstm", "num_blocks"),
    )
)  # fmt: skip
"""Types and fields with which transformers makes a module that cannot run: two fields that must agree."""


def changes(model_type: str, config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names of changed configurations, and these: sizes doubled and halved, switches turned; of the text too."""
    for field, value in config.items():
        if field in _LEFT or field.endswith("token_id") or (model_type, field) in _NOT_BUILT:
            continue
        if field in TEXT_PARTS and isinstance(value, dict):
            for name, changed in changes(model_type, value):
                yield name, {**config, field: changed}
        for other in _others(value):
            yield f"{model_type}, {field} {other}", {**config, field: other}


def _others(value: object) -> tuple[object, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int) and value > 0:
        return (2 * value, value // 2) if value % 2 == 0 else (2 * value,)
    return (64, True) if value is None else ()
