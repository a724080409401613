"""The encoder of sound of a configuration: what makes frames of a spectrum, its blocks, and its projector.

All of them read a spectrum of a hundred columns a second, as Whisper does, which configurations do not say.
[Whisper, arXiv:2212.04356, §2.2]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, Place
from evenflow.predict.transformer import Biases, Modality, Norms, Stem, Tower, Transformer
from evenflow.profiles.transformer.config_encoder import EncoderPart, two_layers
from evenflow.ranges import MODEL_SIZE, Range

_COLUMNS = 100
"""Of the spectrum, a second."""
_KERNEL = 3
_SKIP = 2
"""Columns or rows of which a convolution that skips gives one."""
_CONFORMER_FFN, _CONFORMER_NORMS = 4, 9
"""Of Gemma 4: hidden sizes in the width of an MLP, and norms of a block."""
_GEMMA4_CHANNELS, _GEMMA3N_TOKENS = "subsampling_conv_channels", 188
_PHI_NORMS, _STRETCH = 5, 500
"""Of Phi-4-multimodal: norms of a block, and frames that see each other."""
_CONTEXT = Range(least=0, most=MODEL_SIZE.most)
_PICTURE_CONVOLUTIONS = 3
"""Of Qwen3-Omni, each over both dimensions of the spectrum, of which it skips one of two."""
_WINDOW = 2  # a token sees twice as many in all as before it (`Transformer.window`)
_WHISPER_BIASES = Biases(queries=True, keys=False, out=True, mlp=True, norms=True)


class Silence(Enum):
    """Whether a clip that is shorter than a chunk is filled up with silence."""

    NONE = "none"
    ENCODED = "encoded"
    """Its blocks work on whole chunks, and the decoder gets the tokens of the sound alone."""
    READ = "read"
    """The decoder gets the tokens of the silence too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioEncoder:
    """An encoder of sound as a configuration has it, before anybody says which clips there are."""

    tower: Tower
    """For one clip of one token."""
    chunk: int
    """Columns of the spectrum that are encoded by themselves."""
    stride: int
    """Columns that become one frame of its blocks."""
    silence: Silence = Silence.NONE
    is_cut: bool = True
    """Whether a clip that is longer than a chunk becomes several."""

    @property
    def usual_seconds(self) -> int | None:
        """Length of a clip that fills a chunk; None where clips are of any length."""
        return None if self.silence is Silence.NONE else max(1, self.chunk // _COLUMNS)

    @property
    def most_seconds(self) -> int | None:
        """Length of the longest clip; None where there is none."""
        return None if self.is_cut else self.chunk // _COLUMNS

    def of_clips(self, count: int, *, seconds: int) -> Tower:
        """Return it for so many clips of a sequence, none of them longer than it takes."""
        columns = seconds * _COLUMNS
        whole, rest = divmod(columns, self.chunk)
        per_chunk = -(-self.chunk // self.stride)
        if self.silence is Silence.NONE:
            return replace(self.tower, inputs=count, patches=whole * per_chunk + -(-rest // self.stride))
        chunks = whole + bool(rest)
        heard = per_chunk if self.silence is Silence.READ else -(-columns // (self.stride * chunks))
        return replace(self.tower, inputs=count * chunks, patches=heard, further=per_chunk - heard)


def _whisper(part: EncoderPart, *, has_positions: bool = True) -> tuple[Transformer, tuple[Stem, ...]]:
    """Return the blocks of Whisper's encoder, and the two convolutions before them, of which the second skips."""
    hidden = part.size("hidden_size")
    blocks = part.blocks(biases=_WHISPER_BIASES, rotary=False)
    first, second = (
        Addition(name="convolution", products=((_KERNEL * read, hidden),), numbers=hidden, small=hidden)
        for read in (part.size("num_mel_bins"), hidden)
    )
    fixed = part.size("max_source_positions") * hidden if has_positions else 0
    return blocks, (Stem(part=first, times=_SKIP), Stem(part=second, fixed=fixed))


def _clips_of(part: EncoderPart, tower: Tower, *, silence: Silence, is_cut: bool = True) -> AudioEncoder:
    """Return an encoder whose chunks are as long as its positions."""
    return AudioEncoder(
        tower=tower, chunk=_SKIP * part.size("max_source_positions"), stride=_SKIP, silence=silence, is_cut=is_cut
    )


def _pooled(part: EncoderPart, projector: Addition) -> Tower:
    """Return Whisper's encoder with the mean of two frames, their norm, and a projector behind it."""
    blocks, before = _whisper(part)
    hidden = blocks.hidden
    behind = replace(projector, numbers=projector.numbers + _SKIP * hidden, small=projector.small + 2 * hidden)
    return Tower(
        modality=Modality.AUDIO, blocks=blocks, before=before, behind=behind, merged=_SKIP, inputs=1, patches=_SKIP
    )


def _qwen2(part: EncoderPart) -> AudioEncoder:
    hidden = part.size("hidden_size")
    projector = Addition(name="projector", products=((hidden, part.hidden),), numbers=hidden, small=part.hidden)
    return _clips_of(part, _pooled(part, projector), silence=Silence.ENCODED, is_cut=False)


def _flamingo(part: EncoderPart) -> AudioEncoder:
    values = part.whole.values
    bias = part.whole.flag("projector_bias") if values.get("projector_bias") is not None else True
    projector = two_layers(part.size("hidden_size"), part.hidden, part.hidden, norm=0, bias=bias)
    return _clips_of(part, _pooled(part, projector), silence=Silence.ENCODED)


def _voxtral(part: EncoderPart) -> AudioEncoder:
    """As many frames become a token as make the width of an MLP."""
    blocks, before = _whisper(part)
    hidden, wide = blocks.hidden, part.size("intermediate_size")
    if wide % hidden:
        rule = _("must be a multiple of the hidden size ({hidden}): so many frames become a token", hidden=hidden)
        raise part.fault("intermediate_size", wide, rule)
    merged = wide // hidden
    tower = Tower(
        modality=Modality.AUDIO, blocks=blocks, before=before, merged=merged, inputs=1, patches=merged,
        behind=two_layers(wide, part.hidden, part.hidden, norm=2 * hidden, bias=False),
    )  # fmt: skip
    return _clips_of(part, tower, silence=Silence.READ)


def _ultravox(part: EncoderPart) -> AudioEncoder:
    """Frames are stacked, normed and projected, gated by half of what that gives or not."""
    blocks, before = _whisper(part)
    whole, hidden = (
        EncoderPart(part=part.whole, whole=part.whole, hidden=part.hidden, defaults=_ULTRAVOX),
        blocks.hidden,
    )
    merged, inner = whole.size("stack_factor"), whole.size("hidden_size")
    middle = inner // 2 if whole.text("projector_act") == "swiglu" else inner
    normed = middle if whole.is_on("projector_ln_mid") else part.hidden
    wide = merged * hidden
    behind = Addition(
        name="projector", products=((wide, inner), (middle, part.hidden)), numbers=2 * wide + inner + normed,
        small=2 * hidden + wide + normed,
    )  # fmt: skip
    tower = Tower(
        modality=Modality.AUDIO, blocks=blocks, before=before, behind=behind, merged=merged, inputs=1, patches=merged
    )
    return _clips_of(part, tower, silence=Silence.NONE)


def _omni2_5(part: EncoderPart) -> AudioEncoder:
    """Qwen2.5-Omni: frames see those of their chunk, and two become a token."""
    blocks, before = _whisper(part, has_positions=False)
    hidden, out, half = blocks.hidden, part.size("output_dim"), part.size("n_window")
    behind = Addition(
        name="projector", products=((hidden, out),), numbers=_SKIP * hidden + hidden, small=2 * hidden + 3 * out
    )  # of these, two vectors mark where a clip begins and ends
    tower = Tower(
        modality=Modality.AUDIO, blocks=replace(blocks, window=max(1, half // _WINDOW)), before=before, behind=behind,
        merged=_SKIP, inputs=1, patches=_SKIP,
    )  # fmt: skip
    return AudioEncoder(tower=tower, chunk=2 * half, stride=_SKIP)


def _omni3(part: EncoderPart) -> AudioEncoder:
    """Qwen3-Omni: three convolutions over the spectrum as over a picture, and attention within several chunks."""
    hidden, channels, out = part.size("hidden_size"), part.size("downsample_hidden_size"), part.size("output_dim")
    chunk, stride = 2 * part.size("n_window"), _SKIP**_PICTURE_CONVOLUTIONS
    frames = -(-chunk // stride)
    before, rows, columns, read = [], part.size("num_mel_bins"), chunk, 1
    for _convolution in range(_PICTURE_CONVOLUTIONS):
        rows, columns = -(-rows // _SKIP), -(-columns // _SKIP)
        product = (_KERNEL**2 * read, channels)
        convolution = Addition(name="convolution", products=(product,), numbers=channels, small=channels)
        before.append(Stem(part=convolution, times=round(rows * columns / frames)))
        read = channels
    before.append(Stem(part=Addition(name="convolution", products=((rows * channels, hidden),), numbers=hidden)))
    seen = max(1, part.size("n_window_infer") // chunk) * frames
    tower = Tower(
        modality=Modality.AUDIO, blocks=replace(part.blocks(rotary=False), window=max(1, seen // _WINDOW)),
        before=tuple(before), behind=two_layers(hidden, hidden, out, norm=2 * hidden), merged=1, inputs=1, patches=1,
    )  # fmt: skip
    return AudioEncoder(tower=tower, chunk=chunk, stride=stride)


def _conformer(
    part: EncoderPart, *, spectrum: int, channels: tuple[int, int], kernel: int, seen: int
) -> tuple[Transformer, tuple[Stem, ...]]:
    """Return blocks of an MLP, attention to the frames nearby, a convolution and another MLP, and what is before them.

    The last two count as additions, of which every device of a tensor group has all. [arXiv:2005.08100]
    """
    hidden, (wide, narrow) = part.size("hidden_size"), channels
    rows = (spectrum // _SKIP, max(1, spectrum // _SKIP**2))
    first, second = (
        Addition(name="convolution", products=((_KERNEL**2 * read, given),), numbers=2 * given, small=given)
        for read, given in ((1, wide), (wide, narrow))
    )
    joined = Addition(name="convolution", products=((spectrum // _SKIP**2 * narrow, hidden),))
    before = (Stem(part=first, times=max(1, _SKIP * rows[0])), Stem(part=second, times=rows[1]), Stem(part=joined))
    plain = part.blocks(ffn=_CONFORMER_FFN * hidden, biases=Biases())
    blocks = replace(
        plain, norms=Norms(of_layer=_CONFORMER_NORMS), window=max(1, seen // _WINDOW),
        additions=(
            Addition(
                name="second MLP", products=((hidden, plain.ffn), (plain.ffn, hidden)), numbers=plain.ffn + hidden
            ),
            Addition(
                name="convolution", products=((hidden, 2 * hidden), (hidden, hidden)), numbers=5 * hidden,
                small=hidden * kernel,
            ),
            Addition(name="positions", place=Place.ATTENTION, small=hidden * hidden + plain.head_dim),
        ),
    )  # fmt: skip
    return blocks, before


def _gemma4(part: EncoderPart) -> AudioEncoder:
    """Gemma 4, whose spectrum has as many rows as the first convolution has channels."""
    hidden, out, channels = part.size("hidden_size"), part.size("output_proj_dims"), part.pair(_GEMMA4_CHANNELS)
    seen = part.size("attention_chunk_size") + part.size("attention_context_left") - 1
    seen += part.size("attention_context_right", _CONTEXT)
    blocks, before = _conformer(
        part, spectrum=channels[0], channels=channels, kernel=part.size("conv_kernel_size"), seen=seen
    )
    behind = Addition(name="projector", products=((hidden, out), (out, part.hidden)), numbers=out, small=out)
    tower = Tower(modality=Modality.AUDIO, blocks=blocks, before=before, behind=behind, merged=1, inputs=1, patches=1)
    return AudioEncoder(tower=tower, chunk=_SKIP**2, stride=_SKIP**2)


def _gemma3n(part: EncoderPart) -> AudioEncoder:
    """Gemma 3n: the blocks of Gemma 4, of whose frames one in several becomes a token; a table of tokens for sound."""
    hidden, channels = part.size("hidden_size"), part.pair("sscp_conv_channel_size")
    seen = part.size("conf_attention_chunk_size") + part.size("conf_attention_context_left") - 1
    seen += part.size("conf_attention_context_right", _CONTEXT)
    blocks, before = _conformer(
        part, spectrum=part.size("input_feat_size"), channels=channels, kernel=part.size("conf_conv_kernel_size"),
        seen=seen,
    )  # fmt: skip
    behind = Addition(
        name="projector", products=((hidden, part.hidden),), numbers=hidden + part.hidden,
        small=(part.size("vocab_size") + 2) * hidden,
    )  # fmt: skip
    merged, tokens = part.size("conf_reduction_factor"), part.whole.values.get("audio_soft_tokens_per_image")
    tower = Tower(
        modality=Modality.AUDIO, blocks=blocks, before=before, behind=behind, merged=merged, inputs=1, patches=merged
    )
    most = tokens if is_integer(tokens) and tokens in MODEL_SIZE else _GEMMA3N_TOKENS
    return AudioEncoder(tower=tower, chunk=most * merged * _SKIP**2, stride=_SKIP**2, is_cut=False)


def _phi4(part: EncoderPart) -> AudioEncoder:
    """Phi-4-multimodal: blocks as those of Gemma 4, with gated MLPs, over the frames of one stretch. [arXiv:2005.08100]

    A table of biases by distance is that of all blocks. The projector has a twin for clips beside images, which holds
    as many numbers.
    """
    hidden, channels, out = part.size("hidden_size"), part.size("nemo_conv_channels"), part.size("ext_pw_out_channel")
    if part.size("downsample_rate") != 1:
        raise part.fault("downsample_rate", part.value("downsample_rate"), _("must be {number}", number=1))
    stride, rows, before = part.size("time_reduction"), part.size("input_size"), list[Stem]()
    halvings = stride.bit_length() - 1
    for left in reversed(range(halvings)):
        rows = -(-rows // _SKIP)
        first = _KERNEL**2, channels
        small = channels if not before else (_KERNEL**2 + 2) * channels  # of each channel by itself, then of all
        convolution = Addition(
            name="convolution", products=((channels, channels) if before else first,), numbers=channels, small=small
        )
        before.append(Stem(part=convolution, times=rows * _SKIP**left))
    buckets = part.size("bias_max_distance") * (1 if part.is_on("bias_symmetric") else 2)
    small = hidden + buckets * part.size("heads")
    before.append(Stem(part=Addition(name="convolution", products=((rows * channels, hidden),), small=small)))
    plain, wide = part.blocks(gated=True, rotary=False), hidden * part.size("depthwise_multiplier")
    inner, separable = plain.ffn, part.size("depthwise_separable_out_channel")
    blocks = replace(
        plain, norms=Norms(of_layer=_PHI_NORMS), window=_STRETCH // _WINDOW,
        additions=(
            Addition(
                name="second MLP", products=((hidden, 2 * inner), (inner, hidden)), numbers=inner + hidden,
                small=2 * inner + hidden,
            ),
            Addition(
                name="convolution", products=((hidden, 2 * out), (wide, separable), (hidden, out)),
                numbers=2 * out + wide + separable, small=5 * out + wide * (part.size("kernel_size") + 1) + separable,
            ),
        ),
    )  # fmt: skip
    twin = (hidden + 1) * part.hidden + (part.hidden + 1) * part.hidden
    tower = Tower(
        modality=Modality.AUDIO, blocks=blocks, before=tuple(before), merged=1, inputs=1, patches=1,
        behind=two_layers(hidden, part.hidden, part.hidden, norm=0, more=twin),
    )  # fmt: skip
    return AudioEncoder(tower=tower, chunk=_STRETCH * stride, stride=stride)


_WHISPER: Mapping[str, object] = {
    "hidden_size": 1280, "layers": 32, "heads": 20, "intermediate_size": 5120, "num_mel_bins": 128,
    "max_source_positions": 1500,
}  # fmt: skip
_ULTRAVOX: Mapping[str, object] = {"hidden_size": 4096, "stack_factor": 8, "projector_act": "swiglu"}
_SMALL_WHISPER: Mapping[str, object] = {
    **_WHISPER, "hidden_size": 384, "layers": 4, "heads": 6, "intermediate_size": 1536, "num_mel_bins": 80
}  # fmt: skip
AUDIO_ENCODERS: Mapping[str, tuple[Callable[[EncoderPart], AudioEncoder], Mapping[str, object]]] = {
    "gemma4": (_gemma4, {
        "hidden_size": 1024, "layers": 12, "heads": 8, "subsampling_conv_channels": (128, 32), "conv_kernel_size": 5,
        "attention_chunk_size": 12, "attention_context_left": 13, "attention_context_right": 0,
        "output_proj_dims": 1536,
    }),
    "gemma3n": (_gemma3n, {
        "hidden_size": 1536, "layers": 12, "heads": 8, "input_feat_size": 128, "sscp_conv_channel_size": (128, 32),
        "conf_conv_kernel_size": 5, "conf_attention_chunk_size": 12, "conf_attention_context_left": 13,
        "conf_attention_context_right": 0, "conf_reduction_factor": 4, "vocab_size": 128,
    }),
    "phi4_multimodal": (_phi4, {
        "hidden_size": 1024, "intermediate_size": 1536, "layers": 24, "heads": 16, "input_size": 80,
        "time_reduction": 8, "nemo_conv_channels": 1024, "ext_pw_out_channel": 1024,
        "depthwise_separable_out_channel": 1024, "depthwise_multiplier": 1, "kernel_size": 3, "downsample_rate": 1,
        "bias_max_distance": 1000, "bias_symmetric": False,
    }),
    "qwen2_audio": (_qwen2, _WHISPER),
    "audioflamingo3": (_flamingo, _WHISPER),
    "voxtral": (_voxtral, _WHISPER),
    "ultravox": (_ultravox, _SMALL_WHISPER),
    "qwen2_5_omni_thinker": (_omni2_5, {**_WHISPER, "n_window": 100, "output_dim": 3584}),
    "qwen3_omni_moe_thinker": (_omni3, {
        **_WHISPER, "n_window": 50, "n_window_infer": 800, "output_dim": 3584, "downsample_hidden_size": 480,
    }),
}  # fmt: skip
"""Encoders by the type of the whole model: what reads them, and the fields that a file may leave out."""
