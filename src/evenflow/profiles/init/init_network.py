"""The network that an init file describes: the memory of a fit with the times of layers."""

from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL
from evenflow.profiles.init.init_times import LayerTimes, PassTimes
from evenflow.profiles.layer_entry import KIND_KEYS
from evenflow.profiles.memory.fit import MemoryFit


def network_of_fit(fit: MemoryFit, times: LayerTimes, *, name: str) -> Network:
    """Return head, equal body layers and tail; layers offer the kinds that were dry-run and no others.

    A kind's backward is the plain one and the share of a layer file's default coefficient. Head and tail memory count
    as parameters: what they keep for each microbatch is small and the equations cannot tell it apart.

    Raises:
        InputError: a fit that no plan should be made from.
    """
    if fit.refusal is not None:
        raise fit.refusal
    body = times.body
    modes = {
        kind: Mode(
            activation_bytes=fit.value_bytes(kind),
            backward_ns=round((1 + (0 if kind == NONE else KIND_KEYS[kind].default_coef)) * body.backward_ns),
        )
        for kind in (NONE, *KIND_KEYS)  # the order of a layer file
        if kind in fit.kinds
    }
    layer = Layer(name=body.name, forward_ns=body.forward_ns, parameter_bytes=fit.value_bytes(PARAMETER), modes=modes)
    return Network(
        name=name,
        runs=(LayerRun(layer=layer, count=fit.dry_runs.rounds[0].num_layers),),
        head=_end_block(times.head, fit.value_bytes(HEAD)),
        tail=_end_block(times.tail, fit.value_bytes(TAIL)),
        constant_bytes=fit.value_bytes(CONSTANT),
        peak_error=fit.peak_error,
    )


def _end_block(part: PassTimes, parameter_bytes: int) -> EndBlock:
    return EndBlock(
        name=part.name,
        forward_ns=part.forward_ns,
        backward_ns=part.backward_ns,
        parameter_bytes=parameter_bytes,
    )
