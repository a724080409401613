"""What the tables of `evenflow predict` say of a traced decoder: times of fused operators, the embedding, the loss.

A profile takes these where the tables know the model, so that both verbs give one answer; the trace says what stays
alive, how the backward falls apart, and what the recompute kinds save that only it knows.
"""

from dataclasses import dataclass, replace

from evenflow.cluster import Accelerator, parse_dtype
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.model import FULL, NONE, EndBlock, Layer, Network
from evenflow.predict.activations import further_logits
from evenflow.predict.end_work import mtp_passes
from evenflow.predict.held import total
from evenflow.predict.parameters import mtp_parameters
from evenflow.predict.passes import HALF
from evenflow.predict.pricing import Spending
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.predict.step_network import PricedPart, on_one_device, priced_layer, priced_network
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.vocabulary import Aspect, word_about
from evenflow.predict.work import Spent
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow_torch.profile.part_profile import PartProfile
from evenflow_torch.profile.part_times import PartTimes
from evenflow_torch.requests import ProfileRequest

_ON_THE_DEVICE = (Spent.PRODUCTS, Spent.ATTENTION, Spent.OTHER)
"""What a device does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedPart:
    """One part of a decoder, with its costs by the tables of `evenflow predict`."""

    block: Layer | EndBlock
    priced: PricedPart
    has_exchanges: bool = False
    """Whether its times have the exchanges of tokens between experts, and its halves are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedParts:
    """The parts of a decoder, with their costs by the tables, for one microbatch on one device."""

    head: PredictedPart
    layers: tuple[PredictedPart, ...]
    tail: PredictedPart
    constant_bytes: int
    further: PredictedPart | None
    """A block that predicts a further token; None without any."""
    further_loss_bytes: int
    """What the losses of further tokens keep until their backwards, all together."""


def predicted_parts(config: Fields, request: ProfileRequest, accelerator: Accelerator) -> PredictedParts | None:
    """Return what the tables say of the decoder that `config` describes; None where they do not know it."""
    dtype, tensor_parallel, expert_parallel = (
        parse_dtype(request.dtype),
        request.tensor_parallel,
        request.expert_parallel,
    )
    exchanges = expert_parallel > 1
    if dtype.item_bytes != HALF:  # the tables are of 16-bit activations
        return None
    try:
        model = transformer_of_config(config).model
        training = Training(
            model=replace(model, predicted_tokens=0),
            degrees=Degrees(
                tensor=tensor_parallel,
                pipeline=2,
                data=expert_parallel,
                expert=expert_parallel,
                expert_tensor=tensor_parallel if exchanges else None,  # the trace has experts of divided widths
                sequence_parallel=False,
                sharding=Sharding.NOTHING,
            ),
            microbatch=request.microbatch,
            global_batch=request.microbatch * expert_parallel,
            sequence=request.sequence,
            precision=dtype.short_name,
            software=_software(request.token_dispatcher),
        )
        topology = Topology.of(accelerator, None if exchanges else tensor_parallel)
        priced = priced_network(training, topology)
    except InputError:
        return None
    network = priced.network
    blocks = [run.layer for run in network.runs for _ in range(run.count)]
    return PredictedParts(
        head=PredictedPart(block=network.head, priced=priced.head),
        layers=tuple(
            PredictedPart(block=block, priced=part, has_exchanges=exchanges)
            for block, part in zip(blocks, priced.layers, strict=True)
        ),
        tail=PredictedPart(block=network.tail, priced=priced.tail),
        constant_bytes=network.constant_bytes,
        further=_further_block(replace(training, model=model), topology, network),
        further_loss_bytes=total(further_logits(replace(training, model=model))),
    )


def _software(dispatcher: str | None) -> Software:
    word = None if dispatcher is None else word_about(Aspect.DISPATCHER, dispatcher)
    return Software() if word is None else replace(Software(), **word.changes)


def _further_block(training: Training, topology: Topology, network: Network) -> PredictedPart | None:
    """Return the block that predicts a further token, without a copy of the embedding."""
    if not training.model.predicted_tokens:
        return None
    alone = on_one_device(training)
    return PredictedPart(
        block=with_separate_mtp(training, topology, network).layers[-1],
        priced=priced_layer(alone, topology, mtp_passes(alone), mtp_parameters(alone)),
        has_exchanges=training.degrees.expert > 1,
    )


def is_same_layer(profile: PartProfile, predicted: PredictedPart) -> bool:
    """Whether the tables describe the traced layer: it has as many parameters."""
    parameters = predicted.priced.parameters
    return profile.num_parameters == parameters.dense + parameters.expert


def with_predicted(profile: PartProfile, predicted: PredictedPart) -> PartProfile:
    """Return the profile of a traced part with what the tables say of it in its place.

    Times of a recompute kind that only the trace knows are those of the tables without recomputation, and the traced
    time of what is computed again, in the proportion of both forwards; so is the share of the weight gradient. What
    computes experts again exchanges tokens again.
    """
    block, priced, traced = predicted.block, predicted.priced, profile.times
    exchanged_ns = _exchanging_ns(priced.forward) if predicted.has_exchanges else 0
    backward_ns = {
        kind: _computing_ns(spending) + (_exchanging_ns(spending) if predicted.has_exchanges else 0)
        for kind, spending in priced.backward.items()
        if kind in (NONE, FULL)
    }
    forward_ns, computed_ns = _computing_ns(priced.forward), _computing_ns(priced.backward[NONE])
    plain_ns = traced.backward_ns[NONE]
    scale = forward_ns / max(1, traced.forward_ns)
    again_ns = {
        kind: round(scale * max(0, time_ns - plain_ns)) + (exchanged_ns if kind in profile.experts_again else 0)
        for kind, time_ns in traced.backward_ns.items()
    }
    times = PartTimes(
        forward_ns=forward_ns + exchanged_ns,
        backward_ns={kind: backward_ns.get(kind, backward_ns[NONE] + again_ns[kind]) for kind in again_ns},
        weight_ns=round(computed_ns * traced.weight_ns / max(1, plain_ns)),
        exchanges_tokens=exchanged_ns > 0,
        halves=priced.halves if predicted.has_exchanges else None,
    )
    if isinstance(block, EndBlock):
        return replace(
            profile,
            times=times,
            activation_bytes={NONE: block.activation_bytes},
            working_bytes={NONE: block.working_bytes},
            until_weight_bytes=block.until_weight_bytes,
        )
    fused = profile.fused_activation_bytes
    working = profile.working_bytes
    own = {kind: mode.working_bytes for kind, mode in block.modes.items() if kind in (NONE, FULL)}
    further = {kind: max(0, size - working[NONE]) for kind, size in working.items()}
    return replace(
        profile,
        times=times,
        activation_bytes=fused,
        until_weight_bytes=min(profile.until_weight_bytes, fused[NONE]),
        working_bytes={kind: own.get(kind, own[NONE] + further[kind]) for kind in working},
    )


def further_with_predicted(profile: PartProfile, layer: PartProfile, tables: PredictedParts) -> PartProfile:
    """Return the profile of a traced block that predicts a further token with what the tables say of it.

    `layer` is the last one of the model by the tables; what the block keeps beside such a layer is theirs too.
    """
    if tables.further is None:
        return profile
    found = with_predicted(profile, tables.further)
    plain, further = tables.layers[-1].block, tables.further.block
    if isinstance(plain, EndBlock) or isinstance(further, EndBlock):
        return found
    more = {kind: further.modes[kind].activation_bytes - plain.modes[kind].activation_bytes for kind in (NONE, FULL)}
    kept = {kind: size + more.get(kind, more[NONE]) for kind, size in layer.activation_bytes.items()}
    return replace(found, activation_bytes=kept)


def _computing_ns(spending: Spending) -> int:
    """Return the computing time in nanoseconds, without exchanges between devices."""
    return round(sum(spending.exposed.get(spent, 0.0) for spent in _ON_THE_DEVICE))


def _exchanging_ns(spending: Spending) -> int:
    """Return the time in nanoseconds in which tokens travel between experts."""
    return round(spending.exposed.get(Spent.EXPERT, 0.0))
