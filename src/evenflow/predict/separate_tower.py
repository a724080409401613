"""The encoder of images as layers of their own, which a plan may spread over the first stages.

Behind its blocks comes one layer of projector and embedding, which stays with the first layer of the decoder: there
the tokens of images take their places among those of the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import add

from evenflow.cluster.topology import Topology
from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network
from evenflow.predict.activations import embedding_activations, tower_activations
from evenflow.predict.end_work import embedding_passes, tower_passes
from evenflow.predict.held import added, total
from evenflow.predict.layer_work import HALF, Passes, message_bytes, tokens
from evenflow.predict.parameters import Parameters, embedding_parameters, tower_parameters
from evenflow.predict.step_network import (
    PricedPart,
    captured,
    end_block,
    kept_by_kind,
    layer_of,
    on_one_device,
    priced_end,
    priced_layer_of,
    sharded,
)
from evenflow.predict.tower import block_kinds, patch_training, projector_parts, tower_parts
from evenflow.predict.training import Training
from evenflow.predict.transformer import LayerKind, Tower


def with_separate_tower(training: Training, topology: Topology, network: Network) -> Network:
    """Return the network of a training whose head is without its encoder of images, which is its first layers."""
    tower = training.model.tower
    if tower is None:
        return network
    made = _Made(training=training, topology=captured(training, topology), tower=tower)
    layers = (*made.blocks(), made.projector(), *made.decoder(network.layers))
    runs = (LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(layers))
    return replace(network, head=made.patches(), runs=tuple(runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """Makes the layers of an encoder."""

    training: Training
    topology: Topology
    tower: Tower

    @property
    def alone(self) -> Training:
        """The training on one device."""
        return on_one_device(self.training)

    def patches(self) -> EndBlock:
        """Return what makes patches of images."""
        before = next(tower_parts(self.alone))
        return replace(
            end_block("patches", self.training, self._priced(tower_passes(before), tower_parameters(before))),
            activation_bytes=total(tower_activations(before)),
            boundary_bytes=self._sent_bytes(-1),
        )

    def blocks(self) -> Iterator[Layer]:
        """Yield the blocks."""
        alone = patch_training(self.alone, self.tower)
        known: dict[LayerKind, Layer] = {}
        for place, kind in enumerate(block_kinds(self.training.model)):
            if kind not in known:
                part = sharded(self.training, self.topology, priced_layer_of(alone, self.topology, kind))
                made = layer_of(self.training, kind, part, kept_by_kind(alone, kind))
                name = ", ".join(word for word in ("image", made.name) if word)
                known[kind] = replace(made, name=name, is_encoder=True)
            yield replace(known[kind], boundary_bytes=self._sent_bytes(place))

    def projector(self) -> Layer:
        """Return what makes tokens of images, and the embedding of all others; nothing of it is computed again."""
        alone = self.alone
        parts = list(projector_parts(alone, self.tower))
        passes = reduce(add, map(tower_passes, parts), embedding_passes(alone))
        parameters = reduce(add, map(tower_parameters, parts), embedding_parameters(alone))
        block = end_block("", self.training, self._priced(passes, parameters))
        kept = total(added(embedding_activations(alone), *map(tower_activations, parts)))
        mode = Mode(activation_bytes=kept, backward_ns=block.backward_ns)
        return Layer(
            name="projector, embedding",
            forward_ns=block.forward_ns,
            parameter_bytes=block.parameter_bytes,
            modes=dict.fromkeys(self.training.kinds, mode),
            is_encoder=True,
        )

    def decoder(self, layers: Sequence[Layer]) -> Iterator[Layer]:
        """Yield the layers of the decoder: the first is with the projector, and some pass on what is for later ones."""
        tapped = len(self.tower.taps)
        for place, layer in enumerate(layers):
            later = tapped - 1 - place
            sent = message_bytes(self.training) + self._tapped_bytes(later) if later > 0 else layer.boundary_bytes
            yield replace(layer, cut_before=place > 0 and layer.cut_before, boundary_bytes=sent)

    def _priced(self, passes: Passes, parameters: Parameters) -> PricedPart:
        return sharded(self.training, self.topology, priced_end(self.topology, passes, parameters))

    def _sent_bytes(self, block: int) -> int:
        """Return what a stage sends on that ends with a block: patches, and the tokens of taps; -1: with none."""
        patches = HALF * tokens(patch_training(self.training, self.tower)) * self.tower.blocks.hidden
        return round(patches) + self._tapped_bytes(sum(tap <= block for tap in self.tower.taps))

    def _tapped_bytes(self, taps: int) -> int:
        """Return the bytes of what so many taps give to layers of the decoder that are yet to come."""
        training = self.training
        return taps * HALF * training.microbatch * self.tower.tokens * training.model.hidden
