"""The row of a model of `FAMILIES` in training, from its configuration: inputs of every part, the loss at the end."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow_torch.models.decoder_config import build_family_model
from evenflow_torch.models.families.family_row import family_row
from evenflow_torch.models.families.table import FAMILIES, ModelTask
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.training_row import hidden_states, loss_tail, next_token_loss, tied_notes, with_inputs


def read_family(
    config: Fields, *, sequence: int, target_sequence: int, microbatch: int, dtype: Dtype, name: str = "model"
) -> ModelRow:
    """Return the row of the model that `config` describes, with the inputs of each part, all on the meta device.

    The inputs are `microbatch` sequences of `sequence` tokens, for a model with an encoder each with a target of
    `target_sequence` tokens behind it; the tail is one part that ends with the loss.

    Raises:
        InputError: as `build_family_model`; sequences longer than the model has positions.
    """
    model = build_family_model(config, dtype=dtype)
    family = FAMILIES[config.text("model_type")]
    source, target = (sequence, target_sequence) if family.has_source else (0, sequence)
    row = family_row(model, family, source=source)
    (head,) = row.head
    for length in {sequence, target}:
        _check_positions(head.module, length, config)
    tokens = torch.zeros((microbatch, source + target), dtype=torch.long, device="meta")
    labels = torch.zeros((microbatch, target), dtype=torch.long, device="meta")
    hidden = hidden_states(tokens, model.get_submodule(family.stacks[-1].path).config.hidden_size, dtype)
    names = [part.path.replace(".", "_") for part in row.tail]
    loss = next_token_loss(model) if family.task is ModelTask.NEXT_TOKEN else _cross_entropy
    tail = loss_tail(row, names, loss, (hidden, labels), index_limit=model.config.vocab_size)
    trained = replace(row, name=name, tail=(tail,), notes=tied_notes(row))
    return with_inputs(trained, tokens, hidden, index_limit=sequence, config=config)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def _check_positions(head: nn.Module, length: int, config: Fields) -> None:
    """Raise InputError where a table of positions is shorter than a sequence."""
    for path, module in head.named_modules():
        name = path.rpartition(".")[2]
        if isinstance(module, nn.Embedding) and name in ("wpe", "embed_positions", "position_embeddings"):
            positions = module.num_embeddings - getattr(module, "offset", 0)
            if length > positions:
                raise InputError(
                    value=length,
                    rule=_("must be at most the {positions} positions that the model has", positions=positions),
                    place="--seq",
                    remedy=_("give shorter sequences, or a configuration with more positions"),
                )
