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
from evenflow_torch.models.layer_inputs import layer_inputs
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
    tokens = torch.zeros((microbatch, sequence), dtype=torch.long, device="meta")
    try:
        inputs_of_layers = layer_inputs(model.model, input_ids=tokens)
    except Exception as error:  # noqa: BLE001 - whatever transformers finds wrong with a user's file
        raise refused(error, config) from None
    vocabulary = model.config.vocab_size
    (head,), (norm, lm_head) = row.head, row.tail
    tail = Part(
        name="norm + lm_head + loss",
        module=Tail(model),
        inputs=(inputs_of_layers[-1].hidden, tokens),
        index_limit=vocabulary,
        paths={"norm": norm.path, "lm_head": lm_head.path},
        position=norm.position,
    )
    return replace(
        row,
        name=name,
        head=(replace(head, name="embed_tokens", inputs=(tokens,), index_limit=vocabulary),),
        body=tuple(
            replace(
                layer,
                name=f"{type(layer.module).__name__}.{index}",
                inputs=(inputs.hidden, *inputs.others),
                named_inputs=inputs.named,
                index_limit=sequence,
            )
            for index, (layer, inputs) in enumerate(zip(row.body, inputs_of_layers, strict=True))
        ),
        tail=(tail,),
        notes=_notes(tied=model.lm_head.weight is head.module.weight, tensor_parallel=tensor_parallel),
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
