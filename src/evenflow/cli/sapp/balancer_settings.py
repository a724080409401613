"""What to plan for: said by flags, or else by the training YAML, by the init file, or by the balancer's defaults."""

import argparse
from dataclasses import dataclass, replace
from typing import TypeVar

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Communication, Layer, Network, Sizes
from evenflow.profiles.init.init_planning import InitPlanning
from evenflow.profiles.training_file import TrainingSizes
from evenflow.schedule import default_family
from evenflow.units import bytes_from_megabytes, megabytes, milliseconds, parse_memory

DUALPIPE_V = "dualpipe-v"
STAGES, MICROBATCHES, INTERLEAVE, LIMIT_MB = 4, 4, 1, 56000
"""Defaults of the balancer. [SAPP guide, Step 4]"""
_FEWEST_TOKENS = 4096
"""Tokens of a part of a sequence below which the original takes fewer parts. [SAPP-PPB]"""

Value = TypeVar("Value")
_Source = InitPlanning | TrainingSizes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerSettings:
    """The settings of one call of the balancer's command."""

    sizes: Sizes
    schedule: str
    memory_limit_bytes: int
    less_memory: bool = False
    constant_bytes: int | None = None
    """Constant memory of a stage, in place of the layer file's."""
    key_value_bytes: int = 0
    """Keys and values of a layer for one microbatch, where sequences are split and the training YAML tells them."""
    communication: Communication | None = None
    is_drawn: bool = True
    """Whether the recommended plan gets a picture."""
    notes: tuple[str, ...] = ()
    """What came from which file, and what that means here."""

    def schedule_of_chunks(self, num_chunks: int) -> str:
        """Return the schedule of a manual entry that has this number of chunks."""
        if num_chunks == self.sizes.num_chunks:
            return self.schedule
        return default_family(num_chunks=num_chunks, less_memory=self.less_memory)

    def applied(self, network: Network) -> Network:
        """Return the network with the constant memory that was asked for, and with what split sequences keep."""
        if self.constant_bytes is not None:
            network = replace(network, constant_bytes=self.constant_bytes)
        if not self.key_value_bytes or not network.has_memory:
            return network
        runs = tuple(replace(run, layer=self._with_caches(run.layer)) for run in network.runs)
        return replace(network, runs=runs)

    def _with_caches(self, layer: Layer) -> Layer:
        """Return a layer as MindFormers trains it on parts of a sequence. [SAPP-PPB]

        It keeps the keys and values of the whole sequence and their gradients all the time, and every part that is in
        flight keeps the keys and values of the whole sequence beside its own share of the rest.
        """
        more = (self.sizes.sequence_splits - 1) * self.key_value_bytes
        modes = {
            kind: replace(mode, activation_bytes=mode.activation_bytes + more) for kind, mode in layer.modes.items()
        }
        return replace(layer, parameter_bytes=layer.parameter_bytes + 2 * self.key_value_bytes, modes=modes)


class _Taken:
    """The values that were taken from files, each of which is named to the user."""

    def __init__(self) -> None:
        self._values: dict[str, list[str]] = {}

    def pick(self, flag: Value | None, *candidates: tuple[_Source, str, str], default: Value) -> Value:
        """Return the flag's value, else the first that a file has (file, attribute, field's name), else `default`."""
        if flag is not None:
            return flag
        for source, attribute, name in candidates:
            value: Value | None = getattr(source, attribute, None)
            if source is not None and value is not None:
                self.add(source.file, name, str(value).lower())
                return value
        return default

    def add(self, file: str, name: str, value: str) -> None:
        """Remember a value as the text that is said."""
        self._values.setdefault(file, []).append(f"{name} {value}")

    @property
    def notes(self) -> list[str]:
        """A sentence for each file."""
        return [
            _("from {file}: {values}", file=file, values=", ".join(values)) for file, values in self._values.items()
        ]


def settings_of(
    flags: argparse.Namespace, *, init: InitPlanning | None = None, training: TrainingSizes | None = None
) -> BalancerSettings:
    """Return what flags and files ask for; a flag wins over the training YAML, and that over the init file.

    Raises:
        InputError: a value that breaks a rule, or flags that exclude each other.
    """
    taken = _Taken()
    stages = taken.pick(
        flags.stage, (training, "num_stages", "pipeline_stage"), (init, "num_stages", "pipeline_num"), default=STAGES
    )
    microbatches = taken.pick(
        flags.micro_batch,
        (training, "num_microbatches", "micro_batch_num"),
        (init, "num_microbatches", "micro_batch_num"),
        default=MICROBATCHES,
    )
    if flags.dualpipe_v:
        chunks, less_memory = _chunks_of_dualpipe_v(flags), False
    else:
        chunks = taken.pick(flags.interleave_degree, (init, "num_chunks", "num_of_interleave"), default=INTERLEAVE)
        less_memory = taken.pick(flags.less_memory, (init, "less_memory", "vpp_less_memory"), default=False)
    sizes = Sizes(
        num_ranks=stages, num_chunks=chunks, num_microbatches=microbatches, sequence_splits=flags.seq_split_num
    )
    schedule = DUALPIPE_V if flags.dualpipe_v else default_family(num_chunks=chunks, less_memory=less_memory)
    return BalancerSettings(
        sizes=sizes,
        schedule=schedule,
        less_memory=less_memory,
        memory_limit_bytes=_limit(flags, init, taken),
        constant_bytes=_constant(flags, init, taken),
        key_value_bytes=_key_value_bytes(flags, training),
        communication=_communication(init, taken),
        is_drawn=init is None or init.enable_simulation is not False,
        notes=(*taken.notes, *_notes(flags, init, training)),
    )


def check_layers(network: Network, num_layers: int | None, *, place: str) -> None:
    """Refuse a file that is about a model with another number of body layers."""
    if num_layers is not None and num_layers != network.num_layers:
        raise InputError(
            value=num_layers,
            rule=_(
                "must be the number of body layers of {model} ({layers})", model=network.name, layers=network.num_layers
            ),
            place=place,
            remedy=_("name the layer file of this model with -m"),
        )


def _chunks_of_dualpipe_v(flags: argparse.Namespace) -> int:
    """Return the two chunks of DualPipe-V; refuse flags that ask for something else."""
    if flags.interleave_degree not in (None, 2):
        raise InputError(
            value=flags.interleave_degree,
            rule=_("must be 2 beside -dual, because DualPipe-V has two chunks on every stage"),
            place="-i",
            remedy=_("leave one of the two out"),
        )
    if flags.less_memory:
        raise InputError(
            rule=_("must not be given beside -dual, which names a schedule of its own"),
            place="-lm",
            remedy=_("leave one of the two out"),
        )
    return 2


def _limit(flags: argparse.Namespace, init: InitPlanning | None, taken: _Taken) -> int:
    if flags.max_memory is not None:
        return parse_memory(flags.max_memory, place="-mem")
    if init is not None and init.memory_limit_bytes is not None:
        taken.add(init.file, "memory_limit", f"{megabytes(init.memory_limit_bytes):g} MB")
        return init.memory_limit_bytes
    return bytes_from_megabytes(LIMIT_MB)


def _constant(flags: argparse.Namespace, init: InitPlanning | None, taken: _Taken) -> int | None:
    if flags.constant_memory is not None:
        if flags.constant_memory.strip() == "0":
            return 0
        return parse_memory(flags.constant_memory, place="-mc")
    if init is not None and init.constant_bytes is not None:
        taken.add(init.file, "constant_memory", f"{megabytes(init.constant_bytes):g} MB")
        return init.constant_bytes
    return None


def _key_value_bytes(flags: argparse.Namespace, training: TrainingSizes | None) -> int:
    return 0 if training is None or flags.seq_split_num == 1 else training.key_value_bytes or 0


def _communication(init: InitPlanning | None, taken: _Taken) -> Communication | None:
    if init is None or init.message_ns is None:
        return None
    taken.add(init.file, "sim_comm_time", f"{milliseconds(init.message_ns):g} ms")
    return Communication(transfer_ns=init.message_ns)


def _notes(flags: argparse.Namespace, init: InitPlanning | None, training: TrainingSizes | None) -> list[str]:
    """Return a note for each value that means something else here than in the original balancer."""
    notes = []
    if flags.optimization_level is not None:
        notes.append(_("-O has no effect: every plan is the best that the time allows"))
    elif init is not None and init.optimization_level is not None:
        notes.append(_("optimization_level has no effect: every plan is the best that the time allows"))
    if init is not None and init.enable_simulation is False:
        notes.append(_("enable_simulation is false, so there is no picture; every plan is simulated all the same"))
    key_value_bytes, splits = _key_value_bytes(flags, training), flags.seq_split_num
    if key_value_bytes:
        notes.append(
            _(
                "every layer keeps {caches:.1f} MB more, and every part of a sequence in flight {part:.1f} MB more, "
                "for the keys and values of the whole sequence",
                caches=megabytes(2 * key_value_bytes),
                part=megabytes(key_value_bytes) * (splits - 1) / splits,
            )
        )
    if training is not None and training.sequence_length is not None and splits > 1:
        tokens = training.sequence_length // splits
        if tokens < _FEWEST_TOKENS:
            notes.append(
                _(
                    "a part of a sequence has {tokens} tokens; below {fewest} the original takes fewer parts, because "
                    "short ones run less efficiently",
                    tokens=tokens,
                    fewest=_FEWEST_TOKENS,
                )
            )
    return notes
