"""The row of a decoder in training, from its configuration: the inputs of every part, and the loss at the end."""

from collections.abc import Callable, Sequence
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

Loss = Callable[[Tensor, Tensor], Tensor]
"""Makes the loss, a scalar, of logits [batch, tokens, vocabulary] and labels [batch, tokens]."""


class LossTail(nn.Module):
    """The end of a model in training: modules one after the other, and the loss."""

    def __init__(self, modules: dict[str, nn.Module], loss: Loss) -> None:
        super().__init__()
        self._loss = loss
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, hidden: Tensor, labels: Tensor, **named: Any) -> Tensor:
        """Return the loss of hidden states for labels [batch, tokens]; the first module also takes `named`."""
        first, *others = self.children()
        hidden = first(hidden, **named)
        for module in others:
            hidden = module(hidden)
        return self._loss(hidden, labels)


def read_decoder(
    config: Fields,
    *,
    sequence: int,
    microbatch: int,
    dtype: Dtype,
    tensor_parallel: int = 1,
    expert_parallel: int = 1,
    name: str = "model",
) -> ModelRow:
    """Return the row of the model that `config` describes, with the inputs of each part, all on the meta device.

    The inputs are `microbatch` sequences of `sequence` tokens; the tail is one part that ends with the loss. With
    `tensor_parallel` devices the parts are those of one of them: an equal share of heads, MLP widths and vocabulary,
    all of the hidden states. [Megatron-LM, arXiv:1909.08053, §3] With `expert_parallel` devices they have the experts
    of one of them.

    Raises:
        InputError: as `build_decoder`.
    """
    model = build_decoder(config, dtype=dtype, tensor_parallel=tensor_parallel, expert_parallel=expert_parallel)
    row = decoder_row(model)
    tokens = torch.zeros((microbatch, sequence), dtype=torch.long, device="meta")
    inputs = hidden_states(tokens, model.config.hidden_size, dtype), tokens
    tail = loss_tail(row, ("norm", "lm_head"), next_token_loss(model), inputs, index_limit=model.config.vocab_size)
    notes = tied_notes(row)
    if tensor_parallel > 1:
        notes += (
            _(
                "communication between the {tensor_parallel} devices of a layer is not in the times",
                tensor_parallel=tensor_parallel,
            ),
        )
    head = replace(row.head[0], name="embed_tokens")
    trained = replace(row, name=name, head=(head,), tail=(tail,), notes=notes)
    return with_inputs(trained, tokens, inputs[0], index_limit=sequence, config=config)


def next_token_loss(model: Any) -> Loss:
    """Return the loss that a model of transformers is trained on to predict the next token."""
    return lambda logits, labels: model.loss_function(logits=logits, labels=labels, vocab_size=model.config.vocab_size)


def loss_tail(
    row: ModelRow, names: Sequence[str], loss: Loss, inputs: tuple[Tensor, Tensor], *, index_limit: int
) -> Part:
    """Return the tail of a row as one part that ends with the loss; `names` are those of its modules in that part.

    The inputs are hidden states and labels.
    """
    assert row.context is not None
    named = dict(zip(names, row.tail, strict=True))
    return Part(
        name=" + ".join([*(part.path.rpartition(".")[2] for part in row.tail), "loss"]),
        module=LossTail({name: part.module for name, part in named.items()}, loss),
        inputs=inputs,
        named_inputs=row.context(inputs[0], row.tail[0]),
        index_limit=index_limit,
        paths={name: part.path for name, part in named.items()},
        position=row.tail[0].position,
    )


def tied_notes(row: ModelRow) -> tuple[str, ...]:
    """Return a sentence where the output layer has the parameters of the embedding."""
    output, head = row.tail[-1].path, row.head[0]
    names = {head.full_name(name) for name, _one in head.module.named_parameters(remove_duplicate=False)}
    if any(names & set(group) and any(name.startswith(output) for name in group) for group in row.shared):
        return (
            _("the embedding table is tied to {output}: the first and the last stage each hold a copy", output=output),
        )
    return ()


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
