"""Refusals of impossible settings of a training, each with its rule and what to give instead."""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from evenflow.cluster.accelerators import Accelerator
from evenflow.errors import InputError
from evenflow.fields import did_you_mean
from evenflow.language import _
from evenflow.model import FULL, NONE, SELECT, Sizes
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import CONTEXT_EXCHANGES, FORMATS, RECOMPUTE_MODULES, Sharding, Training
from evenflow.predict.transformer import Transformer
from evenflow.ranges import CHUNKS, DEVICES, LAYERS, MODEL_SIZE, PART, RANKS, SEQUENCES, TOKENS
from evenflow.schedule import chunk_count, family_name

_KINDS = (NONE, SELECT, FULL)
_WIDER = {"float8": "float16", "float4": "float8"}
"""The format whose peak a format must exceed where a device computes in it."""


def check_training(training: Training, accelerator: Accelerator, *, named: Callable[[str], str] = str) -> None:
    """Refuse a training that no framework can run, before anything is predicted.

    `named` gives the place of a field of `Degrees` or `Training` in messages: the name of its option, for a command.

    Raises:
        InputError: sizes out of range, degrees that do not divide what they split, batches that do not divide,
            experts on more devices than a stage has, a format or an order of work that does not exist.
    """
    checks = _Checks(training, named)
    checks.ranges()
    checks.tensor()
    checks.pipeline()
    checks.sequence()
    checks.experts()
    checks.batch()
    checks.optimizer()
    checks.recompute()
    checks.precision(accelerator)


@dataclass(frozen=True, slots=True)
class _Checks:
    training: Training
    named: Callable[[str], str]

    def fault(self, field: str, value: object, rule: str, remedy: str = "") -> InputError:
        return InputError(value=value, rule=rule, place=self.named(field), remedy=remedy)

    def ranges(self) -> None:
        """Refuse numbers that no training can have."""
        training, degrees, model = self.training, self.training.degrees, self.training.model
        for field, value, within in (
            ("tensor", degrees.tensor, DEVICES),
            ("pipeline", degrees.pipeline, RANKS),
            ("chunks", degrees.chunks, CHUNKS),
            ("context", degrees.context, DEVICES),
            ("data", degrees.data, DEVICES),
            ("expert", degrees.expert, DEVICES),
            ("expert_tensor", 1 if degrees.expert_tensor is None else degrees.expert_tensor, DEVICES),
            ("microbatch", training.microbatch, SEQUENCES),
            ("global_batch", training.global_batch, SEQUENCES),
            ("sequence", training.sequence, TOKENS),
            ("layers", model.layers, LAYERS),
            ("hidden", model.hidden, MODEL_SIZE),
            ("heads", model.heads, MODEL_SIZE),
            ("vocabulary", model.vocabulary, MODEL_SIZE),
        ):
            within.check(value, place=self.named(field))
        if model.images is not None and not model.image_tokens:
            rule = _("must be given: some layers of the model see images beside the sequence")
            raise self.fault("images", None, rule, _("say how many images a sequence has"))
        DEVICES.check(degrees.devices, place=_("tensor x pipeline x context x data"), remedy=_("use fewer devices"))

    def optimizer(self) -> None:
        """Check what the host keeps of the optimizer's state."""
        degrees, field = self.training.degrees, "optimizer_offload"
        PART.check(degrees.optimizer_offload, place=self.named(field))
        if not degrees.optimizer_offload:
            return
        if self.training.host_update is None:
            rule = _("must come with {option}, the bandwidth to the host's memory", option=self.named("host_link"))
            raise self.fault(field, degrees.optimizer_offload, rule)
        if degrees.sharding is Sharding.PARAMETERS or self.training.precision == "fp32":
            rule = _("must be 0 with fully sharded or 32-bit parameters, which are part of the state themselves")
            raise self.fault(field, degrees.optimizer_offload, rule)

    def tensor(self) -> None:
        """Check what tensor parallelism splits."""
        model, tensor = self.training.model, self.training.degrees.tensor
        if tensor == 1:
            return
        rule = _tensor_rule(model, tensor)
        if rule:
            nearest = sorted(range(1, 2 * tensor + 1), key=lambda other: (abs(other - tensor), other))
            raise self.fault(
                "tensor", tensor, rule, _use(next(other for other in nearest if not _tensor_rule(model, other)))
            )

    def pipeline(self) -> None:
        """Check how layers lie on ranks and chunks, and in which order they run."""
        training, degrees = self.training, self.training.degrees
        layers = training.model.layers
        if training.schedule is not None:
            try:
                chunk_count(family_name(training.schedule), degrees.chunks)
            except InputError as error:
                field = "chunks" if error.place == "chunks" else "schedule"
                raise self.fault(field, error.value, error.rule, error.remedy) from None
        Sizes(num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=max(1, training.microbatches))
        if training.layout:
            laid_out = sum(map(sum, training.layout))
            if laid_out != layers:
                rule = _("must be the {layers} layers of the model in all", layers=layers)
                raise self.fault("layout", laid_out, rule, _("change the layers of some ranks"))
            return
        cells = degrees.pipeline * degrees.chunks
        dealt = layers + (2 if training.ends_are_layers else 0)
        if dealt % cells:
            ends = _(" with embedding and loss") if training.ends_are_layers else ""
            rule = _(
                "must be such that pipeline x chunks ({cells}) divides the {dealt} layers{ends}, or the layers of "
                "every rank be given",
                cells=cells,
                dealt=dealt,
                ends=ends,
            )
            pipeline, chunks = degrees.pipeline, degrees.chunks
            axis, number = "pipeline", _divisor(pipeline, of=dealt, times=chunks)
            if dealt % pipeline == 0:
                axis, number = "chunks", _divisor(chunks, of=dealt, times=pipeline)
            raise self.fault(axis, getattr(degrees, axis), rule, _use(number))

    def sequence(self) -> None:
        """Check what context and sequence parallelism split."""
        training, degrees, model = self.training, self.training.degrees, self.training.model
        length, context, tensor = training.sequence, degrees.context, degrees.tensor
        if degrees.context_exchange not in CONTEXT_EXCHANGES:
            rule = _("must be one of {names}", names=", ".join(CONTEXT_EXCHANGES))
            raise self.fault("context_exchange", degrees.context_exchange, rule)
        fixed = model.fixed_sequence
        if fixed and length != fixed:
            rule = _("must be {count:,}: positions of the model are rows and columns of so many tokens", count=fixed)
            raise self.fault("sequence", length, rule, _use(fixed))
        if model.positions and length > model.positions:
            rule = _("must be at most the {count:,} positions that the model learns", count=model.positions)
            raise self.fault("sequence", length, rule)
        encoded = sum(tower.tokens for tower in model.towers if not tower.is_beside)
        if encoded > length:
            rule = _("must be at least the {count:,} tokens of its images and sounds", count=encoded)
            raise self.fault("sequence", length, rule, _use(encoded))
        if context > 1 and length % (2 * context):
            rule = _(
                "must be a multiple of 2 x context ({parts}): each device has a part from the front and one from the "
                "back, so that all have equal work",
                parts=2 * context,
            )
            raise self.fault("sequence", length, rule, _use(_next_multiple(length, of=2 * context)))
        if degrees.sequence_parallel and tensor > 1 and (length // context) % tensor:
            rule = _("must be a multiple of tensor x context ({parts})", parts=tensor * context)
            step = tensor * context * (1 if context == 1 or tensor % 2 == 0 else 2)
            raise self.fault("sequence", length, rule, _use(_next_multiple(length, of=step)))
        if degrees.context_exchange == "all-to-all" and (model.heads // tensor) % context:
            of_device = model.heads // tensor
            rule = _("must divide the {count} heads of a device, which an all-to-all exchanges", count=of_device)
            raise self.fault("context", context, rule, _use(_divisor(context, of=of_device)))

    def experts(self) -> None:
        """Check how experts lie on the devices of a stage."""
        degrees, experts = self.training.degrees, self.training.model.experts
        if experts is None:
            if degrees.expert != 1:
                raise self.fault(
                    "expert", degrees.expert, _("must be 1 for a model without experts"), _("leave it out")
                )
            return
        if experts.count % degrees.expert:
            rule = _("must divide the {count} experts", count=experts.count)
            raise self.fault("expert", degrees.expert, rule, _use(_divisor(degrees.expert, of=experts.count)))
        split = expert_tensor(self.training)
        for width in (experts.ffn, experts.image_ffn):
            if width % split:
                rule = _("must divide the width of an expert ({count})", count=width)
                raise self.fault("expert_tensor", split, rule, _use(_divisor(split, of=width)))
        of_stage = degrees.tensor * degrees.context * degrees.data
        if of_stage % (degrees.expert * split):
            rule = _(
                "must be such that expert x expert tensor ({product}) divides the tensor x context x data devices of "
                "a stage ({of_stage})",
                product=degrees.expert * split,
                of_stage=of_stage,
            )
            raise self.fault("expert", degrees.expert, rule, self._expert_remedy(experts.count, of_stage, split))

    def _expert_remedy(self, count: int, of_stage: int, split: int) -> str:
        """Return the degree that fits, or how many devices the one asked for needs."""
        degrees = self.training.degrees
        possible = _divisor(degrees.expert, of=gcd(count, of_stage // split)) if of_stage % split == 0 else 0
        width = degrees.tensor * degrees.context
        product = degrees.expert * split
        needed = degrees.pipeline * width * product // gcd(width, product)
        if possible:
            return _("use {number}, or a multiple of {needed} devices", number=possible, needed=needed)
        return _("use a multiple of {needed} devices", needed=needed)

    def batch(self) -> None:
        """Check how the sequences of a step are dealt into microbatches."""
        training, data = self.training, self.training.degrees.data
        of = data * training.microbatch
        if training.global_batch % of:
            rule = _("must be a multiple of data x microbatch ({data} x {size})", data=data, size=training.microbatch)
            next_one = _next_multiple(training.global_batch, of=of)
            raise self.fault("global_batch", training.global_batch, rule, _use(next_one))
        size = training.group_size
        if size is not None and not 1 <= size <= training.microbatches:
            rule = _("must be from 1 to the {count} microbatches", count=training.microbatches)
            raise self.fault("group_size", size, rule)

    def recompute(self) -> None:
        """Check what is recomputed."""
        training = self.training
        if training.recompute not in _KINDS:
            raise self.fault("recompute", training.recompute, _("must be one of {names}", names=", ".join(_KINDS)))
        if training.recompute == SELECT:
            for name in training.recompute_modules:
                if name not in RECOMPUTE_MODULES:
                    rule = _("must be some of {names}", names=", ".join(RECOMPUTE_MODULES))
                    raise self.fault("recompute_modules", name, rule, did_you_mean(name, RECOMPUTE_MODULES))
        most = training.full_layers
        if most is None:
            return
        if training.recompute != FULL:
            rule = _("must not be given where layers are not recomputed in full")
            raise self.fault("full_layers", most, rule, _("leave it out"))
        LAYERS.check(most, place=self.named("full_layers"))

    def precision(self, accelerator: Accelerator) -> None:
        """Check the number format of the linear layers."""
        precision = self.training.precision
        if precision not in FORMATS:
            raise self.fault("precision", precision, _("must be one of {names}", names=", ".join(FORMATS)))
        dtype = FORMATS[precision]
        if dtype in _WIDER and accelerator.rate(dtype) <= accelerator.rate(_WIDER[dtype]):
            rule = _("must be a format that {accelerator} computes in", accelerator=accelerator.name)
            usable = [
                name
                for name, number_format in FORMATS.items()
                if number_format not in _WIDER
                or accelerator.rate(number_format) > accelerator.rate(_WIDER[number_format])
            ]
            raise self.fault("precision", precision, rule, _("use one of {names}", names=", ".join(usable)))


def _tensor_rule(model: Transformer, tensor: int) -> str:
    """Return the rule that tensor parallelism breaks; empty where the model can be split so."""
    sizes = [(_("heads"), model.heads), (_("width of the MLP"), model.ffn)]
    if model.states.mixer is not None:
        sizes.append((_("heads of the state mixer"), model.states.mixer.heads))
    if model.shared is not None and (rule := _tensor_rule(model.shared.block, tensor)):
        return rule
    for split_size, count in sizes:
        if count % tensor:
            return _("must divide the {what} ({count})", what=split_size, count=count)
    kv_heads = model.kv_heads
    if model.latent is None and kv_heads % tensor and tensor % kv_heads:
        return _("must divide the {count} heads of keys and values, or be a multiple of them", count=kv_heads)
    if model.experts is not None and model.experts.shared_ffn % tensor:
        return _("must divide the width of the shared experts ({count})", count=model.experts.shared_ffn)
    return ""


def _use(number: int) -> str:
    return _("use {number}", number=f"{number:,}")


def _divisor(degree: int, *, of: int, times: int = 1) -> int:
    """Return the divisor of `of` nearest to `degree`, the smaller of two; `times` it divides `of` too if possible."""
    whole = of // times if of % times == 0 else of
    largest = max(1, min(whole, 2 * degree))
    return min((number for number in range(1, largest + 1) if whole % number == 0), key=lambda n: (abs(n - degree), n))


def _next_multiple(number: int, *, of: int) -> int:
    return -(-number // of) * of
