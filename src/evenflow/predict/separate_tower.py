"""Encoders as layers of their own, which a plan may spread over the first stages.

The blocks of one come after those of the other. Behind them comes one layer of projectors and embedding, which stays
with the first layer of the decoder: there the tokens of images and sounds take their places among those of the text.
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
from evenflow.predict.layer_work import message_bytes
from evenflow.predict.parameters import Parameters, embedding_parameters, tower_parameters
from evenflow.predict.passes import HALF, Passes, tokens
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
from evenflow.predict.tower import block_kinds, patch_training, projector_parts, stem_parts
from evenflow.predict.training import Training
from evenflow.predict.transformer import LayerKind, Tower


def with_separate_tower(training: Training, topology: Topology, network: Network) -> Network:
    """Return the network of a training whose head is without its encoders, which are its first layers."""
    if not training.model.towers:
        return network
    made = _Made(training=training, topology=captured(training, topology))
    layers = (*made.blocks(), made.projector(), *made.decoder(network.layers))
    runs = (LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(layers))
    return replace(network, head=made.patches(), runs=tuple(runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """Makes the layers of the encoders."""

    training: Training
    topology: Topology

    @property
    def alone(self) -> Training:
        """The training on one device."""
        return on_one_device(self.training)

    def patches(self) -> EndBlock:
        """Return what makes the patches of all encoders."""
        parts = [part for tower in self._towers for part in stem_parts(self.alone, tower)]
        passes, parameters = reduce(add, map(tower_passes, parts)), reduce(add, map(tower_parameters, parts))
        return replace(
            end_block("patches", self.training, self._priced(passes, parameters)),
            activation_bytes=total(added(*map(tower_activations, parts))),
            boundary_bytes=self._sent_bytes(0),
        )

    def blocks(self) -> Iterator[Layer]:
        """Yield the blocks of one encoder after the other."""
        done = 0
        for tower in self._towers:
            alone = patch_training(self.alone, tower)
            known: dict[LayerKind, Layer] = {}
            for kind in block_kinds(self.training.model, tower):
                if kind not in known:
                    part = sharded(self.training, self.topology, priced_layer_of(alone, self.topology, kind))
                    made = layer_of(self.training, kind, part, kept_by_kind(alone, kind))
                    name = ", ".join(word for word in (tower.modality.value, made.name) if word)
                    known[kind] = replace(made, name=name, is_encoder=True)
                done += 1
                yield replace(known[kind], boundary_bytes=self._sent_bytes(done))

    def projector(self) -> Layer:
        """Return what makes tokens of the blocks' results, and the embedding of all others.

        Nothing of it is computed again.
        """
        alone = self.alone
        parts = [part for tower in self._towers for part in projector_parts(alone, tower)]
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
            boundary_bytes=self._with_taps(0, None),
            is_encoder=True,
        )

    def decoder(self, layers: Sequence[Layer]) -> Iterator[Layer]:
        """Yield the layers of the decoder, some of which pass on what is for later ones."""
        for place, layer in enumerate(layers, 1):
            yield replace(layer, boundary_bytes=self._with_taps(place, layer.boundary_bytes))

    @property
    def _towers(self) -> tuple[Tower, ...]:
        return self.training.model.towers

    def _priced(self, passes: Passes, parameters: Parameters) -> PricedPart:
        return sharded(self.training, self.topology, priced_end(self.topology, passes, parameters))

    def _sent_bytes(self, blocks: int) -> int:
        """Return what a stage sends on behind so many blocks: patches of all encoders, and the tokens of taps."""
        sent, first = 0, 0
        for tower in self._towers:
            patches = HALF * tokens(patch_training(self.training, tower)) * tower.blocks.hidden
            sent += round(patches) + self._tapped_bytes(tower, sum(first + tap < blocks for tap in tower.taps))
            first += tower.blocks.layers
        return sent

    def _with_taps(self, layers: int, own_bytes: int | None) -> int | None:
        """Return what a stage sends on behind so many layers of the decoder, the last of which gives `own_bytes`.

        None, there as here, for what all layers send on.
        """
        later = sum(self._tapped_bytes(tower, max(0, len(tower.taps) - layers)) for tower in self._towers)
        if not later:
            return own_bytes
        return later + (message_bytes(self.training) if own_bytes is None else own_bytes)

    def _tapped_bytes(self, tower: Tower, taps: int) -> int:
        """Return the bytes of what so many taps of an encoder give to layers of the decoder that are yet to come."""
        training = self.training
        return taps * HALF * training.microbatch * tower.tokens * training.model.hidden
