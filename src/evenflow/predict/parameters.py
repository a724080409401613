"""Parameters of a device by part of the model, and the groups that hold copies of them."""

from dataclasses import dataclass

from evenflow.cluster.topology import Group
from evenflow.predict.layer_work import expert_tensor
from evenflow.predict.training import Degrees, Training


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of trained parameters of one device: experts have copies on fewer devices than the rest."""

    dense: float = 0.0
    expert: float = 0.0

    def __add__(self, other: "Parameters") -> "Parameters":
        return Parameters(self.dense + other.dense, self.expert + other.expert)


def dense_group(degrees: Degrees) -> Group:
    """Return the devices that hold the same dense parameters, and share out their state."""
    return Group(size=degrees.data * degrees.context, stride=degrees.tensor)


def expert_group(training: Training) -> Group:
    """Return the devices that hold the same experts."""
    degrees = training.degrees
    stride = expert_tensor(training) * degrees.expert
    of_stage = degrees.tensor * degrees.context * degrees.data
    return Group(size=max(1, of_stage // stride), stride=stride)


def layer_parameters(training: Training, *, has_experts: bool) -> Parameters:
    """Return the parameters of one body layer on one device."""
    model, degrees = training.model, training.degrees
    tensor, hidden = degrees.tensor, model.hidden
    matrices = 3 if model.gated else 2
    dense = 2.0 * hidden * (2 if model.biases else 1) + _attention(training)
    if not has_experts:
        biases = (model.ffn / tensor + hidden) if model.biases else 0
        return Parameters(dense + matrices * hidden * model.ffn / tensor + biases)
    experts = model.experts
    assert experts is not None
    dense += hidden * experts.count + matrices * hidden * experts.shared_ffn / tensor
    own = experts.count / degrees.expert * matrices * hidden * experts.ffn / expert_tensor(training)
    return Parameters(dense, own)


def _attention(training: Training) -> float:
    model, tensor = training.model, training.degrees.tensor
    latent = model.latent
    if latent is None:
        queries = model.heads * model.head_dim / tensor
        keys = max(model.kv_heads / tensor, 1) * model.head_dim
        biases = (queries + 2 * keys + model.hidden) if model.biases else 0
        return model.hidden * (2 * queries + 2 * keys) + biases
    heads = model.heads / tensor
    width = latent.plain_dim + latent.rotary_dim
    narrow = (
        latent.query_rank * (model.hidden + heads * width + 1) if latent.query_rank else model.hidden * heads * width
    )
    keys = model.hidden * (latent.key_value_rank + latent.rotary_dim) + latent.key_value_rank
    return (
        narrow
        + keys
        + heads * (latent.key_value_rank * (latent.plain_dim + latent.value_dim) + latent.value_dim * model.hidden)
    )


def head_parameters(training: Training) -> Parameters:
    """Return those of the embedding, and of learned positions."""
    model = training.model
    return Parameters(model.hidden * (padded_vocabulary(training) / training.degrees.tensor + model.positions))


def tail_parameters(training: Training, *, has_embedding: bool) -> Parameters:
    """Return those of the last norm, of the output layer, and of blocks that predict further tokens.

    A tied output layer is a copy where the embedding is on another rank, and nothing where `has_embedding`.
    """
    model = training.model
    table = model.hidden * padded_vocabulary(training) / training.degrees.tensor
    dense = Parameters(model.hidden * (2 if model.biases else 1) + (0 if model.tied and has_embedding else table))
    for _block in range(model.predicted_tokens):
        dense += layer_parameters(training, has_experts=model.experts is not None)
        dense += Parameters(2 * model.hidden * model.hidden / training.degrees.tensor + 3 * model.hidden)
    return dense


def padded_vocabulary(training: Training) -> int:
    """Return the words of the embedding's table, filled up so that each device has a multiple of 128."""
    of = 128 * training.degrees.tensor
    return -(-training.model.vocabulary // of) * of
