"""The row of a model of `FAMILIES` in training, from its configuration: inputs of every part, the loss at the end."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow_torch.models.decoder_config import build_family_model
from evenflow_torch.models.families.family_row import family_row
from evenflow_torch.models.families.row_modules import ModulePlace
from evenflow_torch.models.families.table import FAMILIES, ModelTask
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.training_row import hidden_states, with_inputs

Loss = Callable[[Tensor, Tensor], Tensor]
"""Makes the loss, a scalar, of logits [batch, tokens, vocabulary] and labels [batch, tokens]."""


class LossTail(nn.Module):
    """The end of a model in training: modules one after the other, and the loss."""

    def __init__(self, modules: dict[str, nn.Module], loss: Loss) -> None:
        super().__init__()
        self._loss = loss
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, hidden: Tensor, labels: Tensor, *, place: ModulePlace) -> Tensor:
        """Return the loss of the row's tensor, whose part for the first module is cut out by `place`."""
        first, *others = self.children()
        hidden = first(hidden, place=place)
        for module in others:
            hidden = module(hidden)
        return self._loss(hidden, labels)


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
    assert row.context is not None
    tail = Part(
        name=" + ".join([*(part.path.rpartition(".")[2] for part in row.tail), "loss"]),
        module=LossTail({part.path.replace(".", "_"): part.module for part in row.tail}, _loss(model, family.task)),
        inputs=(hidden, labels),
        named_inputs=row.context(hidden, row.tail[0]),
        index_limit=model.config.vocab_size,
        paths={part.path.replace(".", "_"): part.path for part in row.tail},
        position=row.tail[0].position,
    )
    trained = replace(row, name=name, tail=(tail,), notes=_notes(row))
    return with_inputs(trained, tokens, hidden, index_limit=sequence, config=config)


def _loss(model: Any, task: ModelTask) -> Loss:
    if task is ModelTask.NEXT_TOKEN:
        return lambda logits, labels: model.loss_function(
            logits=logits, labels=labels, vocab_size=model.config.vocab_size
        )
    return lambda logits, labels: functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


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


def _notes(row: ModelRow) -> tuple[str, ...]:
    notes = []
    tail, head = row.tail[-1].path, row.head[0]
    names = {head.full_name(name) for name, _one in head.module.named_parameters(remove_duplicate=False)}
    if any(names & set(group) and any(name.startswith(tail) for name in group) for group in row.shared):
        notes.append(
            _("the embedding table is tied to {output}: the first and the last stage each hold a copy", output=tail)
        )
    return tuple(notes)
