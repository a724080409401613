"""Parameters of a device by part of the model, and the groups that hold copies of them."""

from collections import Counter
from dataclasses import dataclass

from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.attention_work import key_numbers
from evenflow.predict.expert_work import expert_tensor, expert_widths
from evenflow.predict.layer_parts import Addition, PatchAttention, StateMixer
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.passes import shared_training, with_sizes_of
from evenflow.predict.tower import TowerPart, tower_parts
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import DENSE, LayerKind, Transformer
from evenflow.predict.work import Operators


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters of one device: experts have copies on fewer devices than the rest."""

    dense: float = 0.0
    expert: float = 0.0
    frozen: float = 0.0
    """Those that are not trained: they have weights alone."""

    def __add__(self, other: "Parameters") -> "Parameters":
        return Parameters(self.dense + other.dense, self.expert + other.expert, self.frozen + other.frozen)

    def times(self, count: float) -> "Parameters":
        """Return the parameters of `count` equal parts."""
        return Parameters(count * self.dense, count * self.expert, count * self.frozen)

    def as_frozen(self) -> "Parameters":
        """Return them where none is trained."""
        return Parameters(frozen=self.dense + self.expert + self.frozen)


def dense_group(degrees: Degrees) -> DeviceGroup:
    """Return the devices that hold the same dense parameters, and share out their state."""
    size = degrees.data * degrees.context
    if not degrees.data_outermost:
        return DeviceGroup(size=size, stride=degrees.tensor)
    further = degrees.tensor * degrees.context * degrees.pipeline
    return DeviceGroup(size=size, stride=degrees.tensor, parts=degrees.data, part_stride=further)


def expert_group(training: Training) -> DeviceGroup:
    """Return the devices that hold the same experts."""
    degrees = training.degrees
    stride = expert_tensor(training) * degrees.expert
    of_stage = degrees.tensor * degrees.context * degrees.data
    return DeviceGroup(size=max(1, of_stage // stride), stride=stride)


def shares(training: Training, parameters: Parameters) -> tuple[tuple[DeviceGroup, float], ...]:
    """Return each group of devices that hold copies of a device's `parameters`, with the number of these."""
    pairs = (dense_group(training.degrees), parameters.dense), (expert_group(training), parameters.expert)
    return tuple((group, count) for group, count in pairs if count)


def layer_parameters(training: Training, kind: LayerKind) -> Parameters:
    """Return the parameters of one body layer on one device, its adapters too; these alone are trained with any.

    Those of a block that it shares with others are not among them (see `shared_parameters`).
    """
    own = _own_parameters(training, kind)
    if kind.frozen:
        return own.as_frozen()
    if not training.model.adapter_rank:
        return own
    works = layer_passes(training, kind.own_pass).forward
    adapters = sum(work.adapters for work in works if isinstance(work, Operators))
    return Parameters(adapters) + own.as_frozen()


def shared_parameters(training: Training) -> Parameters:
    """Return the parameters of the blocks that layers share, which every rank of a pipeline holds."""
    block, shared = shared_training(training), training.model.shared
    if block is None or shared is None:
        return Parameters()
    own = layer_parameters(block, DENSE).times(shared.count)
    return own if max(shared.layers) >= training.model.frozen_layers else own.as_frozen()


def used_parameters(training: Training, kind: LayerKind) -> Parameters:
    """Return the parameters that a layer needs for its passes, each of them as often as it is gone through."""
    block = shared_training(training) if kind.shared else None
    once = layer_parameters(training, kind) + (layer_parameters(block, DENSE) if block else Parameters())
    return once.times(kind.passes + kind.unkept)


def _own_parameters(training: Training, kind: LayerKind) -> Parameters:
    training = with_sizes_of(training, kind)
    model, degrees = training.model, training.degrees
    tensor, hidden = degrees.tensor, model.hidden
    dense = model.norms_of(kind) * _norm(model)
    if kind.attention:
        keyed = model.images.width if kind.sees_images and model.images is not None else model.read_width
        dense += _attention(training, keyed)
    if kind.attention and model.crossing is not None:
        dense += _crossing(model, model.crossing, tensor)
    if kind.state and model.states.mixer is not None:
        dense += _state(model.states.mixer, hidden) / tensor
    if kind.mlp:
        dense += _mlp(model, model.ffn / tensor)
    dense *= model.repeats
    if kind.indexer and model.indexer is not None:
        dense += model.indexer.learned(hidden, model.query_rank)
    dense += sum(addition.learned_of(tensor) for addition in model.additions_of(kind))
    experts = model.experts
    if experts is None:
        return Parameters(dense)
    own_experts = experts.count / degrees.expert
    of_attention = 0.0
    if kind.attention and model.attention_experts:
        dense += hidden * experts.count
        of_attention = hidden * sum(expert_widths(training)) * own_experts
    if not kind.experts:
        return Parameters(dense, of_attention)
    dense += (experts.router_width or hidden) * experts.scores + (hidden * experts.count if experts.image_ffn else 0)
    dense += experts.count if model.biases.experts else 0
    if experts.shared_ffn:
        dense += _mlp(model, experts.shared_ffn / tensor) + (hidden if experts.shared_gate else 0)
    dense += 2 * hidden * experts.width + (experts.width + hidden if experts.width and model.biases.mlp else 0)
    split, width = expert_tensor(training), experts.width or hidden
    of_expert = _matrices(model) * width * (experts.ffn + experts.image_ffn) / split
    if model.biases.experts:
        of_expert += (_matrices(model) - 1) * experts.ffn / split + width
    return Parameters(dense, own_experts * of_expert + of_attention)


def _matrices(model: Transformer) -> int:
    """Return the number of matrices in an MLP."""
    return 3 if model.gated else 2


def _mlp(model: Transformer, width: float) -> float:
    """Return the parameters of an MLP of this width; its output's bias is on every device."""
    biases = (_matrices(model) - 1) * width + model.hidden if model.biases.mlp else 0
    return _matrices(model) * model.hidden * width + biases


def _norm(model: Transformer) -> float:
    """Return the parameters of one norm over the hidden size."""
    if not model.norms.learned:
        return 0.0
    return model.hidden * (2.0 if model.biases.norms else 1.0)


def _state(state: StateMixer, hidden: int) -> int:
    """Return the parameters of a state mixer."""
    between = sum(wide * narrow for wide, narrow in state.between)
    return hidden * (state.into + state.out) + between + state.channels * state.kernel + state.small


def _crossing(model: Transformer, crossing: PatchAttention, tensor: int) -> float:
    """Return the parameters of attention between tokens and patches: two norms, and what projects parts of patches."""
    products = 2 * model.heads * model.head_dim + key_numbers(model) + crossing.projected * crossing.parts
    return model.hidden * (products / tensor + 2)


def _attention(training: Training, keyed: int) -> float:
    """Return the parameters of attention whose keys and values are projected from `keyed` numbers."""
    model, tensor = training.model, training.degrees.tensor
    hidden, biases = model.hidden, model.biases
    heads = model.heads / tensor
    small = (hidden if biases.out else 0) + (heads if model.sinks else 0)
    latent = model.latent
    if latent is None:
        queries = heads * model.head_dim
        keys = (
            model.kv_heads / tensor * model.head_dim
        )  # also of a part of a head: its device gets the rest from others
        out = heads * model.value_width
        both = key_numbers(model) / tensor
        biased = queries + both - (0 if biases.keys else keys)
        small += (biased if biases.queries else 0) + min(model.norms.queries, queries)
        small += min(model.norms.keys, max(keys, model.head_dim))
        if model.narrow_ends is not None:
            ends = model.narrow_ends.products(hidden, model.heads * model.head_dim, model.heads * model.value_width)
            wide = sum(read * given * count for read, given, count in ends) / tensor
            return wide + model.narrow_ends.query_rank + hidden * both + small
        if model.attention_experts:
            return hidden * both + small
        gate = hidden * out if model.output_gate else 0
        return model.read_width * queries + keyed * both + hidden * out + gate + small
    width = latent.plain_dim + latent.rotary_dim
    narrow = hidden * heads * width
    if latent.query_rank:
        narrow = latent.query_rank * (hidden + 1 + (1 if biases.queries else 0))
        narrow += latent.queried * heads * (width + latent.gate_dim)
    keys = (hidden + (1 if biases.queries else 0)) * (latent.key_value_rank + latent.rotary_dim) + latent.key_value_rank
    keys = keys if model.key_products else 0
    wide = heads * (latent.key_value_rank * (latent.plain_dim + latent.value_dim) + latent.value_dim * hidden)
    gate = hidden * heads * latent.value_dim if model.output_gate else 0
    return narrow + keys + wide + gate + small


def head_parameters(training: Training) -> Parameters:
    """Return the parameters of the embedding, and of the encoders in front of it."""
    total = embedding_parameters(training)
    for part in tower_parts(training):
        total += tower_parameters(part)
    return total


def tower_parameters(part: TowerPart) -> Parameters:
    """Return the parameters of parts of an encoder, together."""
    if isinstance(part.part, Addition):
        learned = Parameters(part.part.learned_of(part.training.degrees.tensor))
        learned = learned if part.is_trained else learned.as_frozen()
    else:
        learned = layer_parameters(part.training, part.part)
    return (learned + Parameters(part.fixed).as_frozen()).times(part.count)


def embedding_parameters(training: Training) -> Parameters:
    """Return the parameters of the embedding, of learned positions, and of the norm after them."""
    model = training.model
    table = model.hidden * (padded_vocabulary(training) / training.degrees.tensor + model.positions)
    further = sum(addition.learned_of(training.degrees.tensor) for addition in model.head_additions)
    own = Parameters(table + further + (_norm(model) if model.norms.after_embedding else 0))
    return own if model.trains_ends[0] else own.as_frozen()


def tail_parameters(training: Training, *, has_embedding: bool) -> Parameters:
    """Return those of the last norm, of the output layer, and of blocks that predict further tokens.

    A tied output layer is a copy where the embedding is on another rank, and nothing where `has_embedding`. Blocks that
    predict further tokens embed them, with a copy of the embedding where it is on another rank.
    """
    model = training.model
    own_vocabulary = padded_vocabulary(training) / training.degrees.tensor
    table = 0 if model.tied and has_embedding else model.last_width * own_vocabulary
    further = sum(addition.learned_of(training.degrees.tensor) for addition in model.tail_additions)
    further += _norm(model) * model.last_width / model.hidden if model.norms.last else 0
    dense = Parameters(further + table + (own_vocabulary if model.biases.logits else 0))
    if model.predicted_tokens and not (has_embedding or model.tied):
        dense += embedding_copy(training)
    if not model.trains_ends[1]:
        dense = dense.as_frozen()
    for _block in range(model.predicted_tokens):
        dense += mtp_parameters(training)
    return dense


def embedding_copy(training: Training) -> Parameters:
    """Return the parameters of a copy of the embedding, for blocks that predict further tokens on another rank."""
    return Parameters(training.model.hidden * padded_vocabulary(training) / training.degrees.tensor)


def mtp_parameters(training: Training) -> Parameters:
    """Return the parameters of a block that predicts a further token, but for its embedding and output layer."""
    hidden = training.model.hidden
    joined = Parameters(2 * hidden * hidden / training.degrees.tensor + 3 * hidden)
    return layer_parameters(training, training.model.further_kind) + joined


def model_parameters(model: Transformer) -> int:
    """Return the parameters of a whole model, its vocabulary as it is."""
    alone = Training(model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=1)
    total = head_parameters(alone) + tail_parameters(alone, has_embedding=True) + shared_parameters(alone)
    for kind, count in Counter(model.kinds).items():
        total += layer_parameters(alone, kind).times(count)
    of_word = model.hidden + (0 if model.tied else model.last_width) + (1 if model.biases.logits else 0)
    filled = padded_vocabulary(alone) - model.vocabulary
    return round(total.dense + total.expert + total.frozen - filled * of_word)


def padded_vocabulary(training: Training) -> int:
    """Return the words of the embedding's table, filled up so that each device has a multiple of 128."""
    of = 128 * training.degrees.tensor
    return -(-training.model.vocabulary // of) * of
