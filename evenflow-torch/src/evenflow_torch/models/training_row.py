"""The row of a decoder in training, from its configuration: the inputs of every part, and the loss at the end."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from evenflow.cluster import Dtype
from evenflow.fields import Fields
from evenflow.language import _
from evenflow_torch.models.decoder_config import build_decoder, refused
from evenflow_torch.models.decoder_row import decoder_row
from evenflow_torch.models.parts import ModelRow, Part


class Tail(nn.Module):
    """The end of a decoder in training: norm, output layer, loss."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.norm, self.lm_head = model.model.norm, model.lm_head
        self._loss, self._vocabulary = model.loss_function, model.config.vocab_size

    def forward(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, a scalar, of hidden states [batch, sequence, width] for labels [batch, sequence]."""
        loss = self._loss(logits=self.lm_head(self.norm(hidden)), labels=labels, vocab_size=self._vocabulary)
        assert isinstance(loss, Tensor)
        return loss


def read_decoder(
    config: Fields,
    *,
    sequence: int,
    microbatch: int,
    dtype: Dtype,
    tensor_parallel: int = 1,
    name: str = "model",
) -> ModelRow:
    """Return the row of the model that `config` describes, with the inputs of each part, all on the meta device.

    The inputs are `microbatch` sequences of `sequence` tokens; the tail is one part that ends with the loss. With
    `tensor_parallel` devices the parts are those of one of them: an equal share of heads, MLP widths and vocabulary,
    all of the hidden states. [Megatron-LM, arXiv:1909.08053, §3]

    Raises:
        InputError: as `build_decoder`.
    """
    model = build_decoder(config, dtype=dtype, tensor_parallel=tensor_parallel)
    row = decoder_row(model)
    (head,), (norm, lm_head) = row.head, row.tail
    tokens = torch.zeros((microbatch, sequence), dtype=torch.long, device="meta")
    hidden = hidden_states(tokens, model.config.hidden_size, dtype)
    tail = Part(
        name="norm + lm_head + loss",
        module=Tail(model),
        inputs=(hidden, tokens),
        index_limit=model.config.vocab_size,
        paths={"norm": norm.path, "lm_head": lm_head.path},
        position=norm.position,
    )
    notes = _notes(tied=model.lm_head.weight is head.module.weight, tensor_parallel=tensor_parallel)
    trained = replace(row, name=name, head=(replace(head, name="embed_tokens"),), tail=(tail,), notes=notes)
    return with_inputs(trained, tokens, hidden, index_limit=sequence, config=config)


def hidden_states(tokens: Tensor, width: int, dtype: Dtype) -> Tensor:
    """Return what the head of a row makes of `tokens`: [batch, tokens, width] on the meta device."""
    return torch.zeros((*tokens.shape, width), dtype=getattr(torch, dtype), device="meta")


def with_inputs(row: ModelRow, tokens: Tensor, hidden: Tensor, *, index_limit: int, config: Fields) -> ModelRow:
    """Return a row with the inputs of its head and its layers; those of the tail are there.

    Integers that layers take are below `index_limit`.

    Raises:
        InputError: what transformers finds wrong with `config`.
    """
    assert row.context is not None
    try:
        layer_inputs = [row.context(hidden, part) for part in row.body]
    except Exception as error:  # noqa: BLE001 - whatever transformers finds wrong with a user's file
        raise refused(error, config) from None
    (head,), (tail,) = row.head, row.tail
    return replace(
        row,
        head=(replace(head, inputs=(tokens,), index_limit=tail.index_limit),),
        body=tuple(
            replace(
                layer,
                name=f"{type(layer.module).__name__}.{index}",
                inputs=(hidden,),
                named_inputs=named,
                index_limit=index_limit,
            )
            for index, (layer, named) in enumerate(zip(row.body, layer_inputs, strict=True))
        ),
    )


def _notes(*, tied: bool, tensor_parallel: int) -> tuple[str, ...]:
    notes = []
    if tied:
        notes.append(_("the embedding table is tied to lm_head: the first and the last stage each hold a copy"))
    if tensor_parallel > 1:
        notes.append(
            _(
                "communication between the {tensor_parallel} devices of a layer is not in the times",
                tensor_parallel=tensor_parallel,
            )
        )
    return tuple(notes)
