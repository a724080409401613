"""Translates frameworks' words for number formats, sharding, recomputation and schedules into those of a training."""

import re
from collections.abc import Mapping
from dataclasses import replace

from evenflow.fields import not_one_of
from evenflow.predict.stated_software import StatedSoftware, stated_software
from evenflow.predict.training import FORMATS, Sharding
from evenflow.predict.vocabulary import Aspect, SoftwareWord, known_words, normal, words_about
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.schedule import FAMILIES

_PRECISIONS = ((r"(nv|mx)?fp4.*", "nvfp4"), (r"(mx|amp)?fp8.*|float8.*", "fp8"), (r"(amp)?bf16|bfloat16", "bf16"),
               (r"(amp)?fp16|float16", "fp16"), (r"fp32|tf32|float32", "fp32"))  # fmt: skip
"""Patterns of names without dashes and underscores; how numbers are scaled, as in mxfp8, is told by `software_of`."""
_RECOMPUTE: Mapping[str, str] = {"full": "full", "block": "full", "uniform": "full", "selective": "select"}
_SCHEDULES: Mapping[str, str] = {
    "gpipe": "f-then-b", "zbvzerobubble": "zbv", "zbvpp": "zbv", "dualpipev": "dualpipe-v", "zerobubble": "zb-h1",
}  # fmt: skip
"""Schedules by other names than a family's, without dashes and underscores."""
_USUAL = ("1f1b", "interleaved")


def precision_of(run: MeasuredRun) -> str:
    """Return the number format of linear layers; raises `InputError` for one that is not known."""
    word = re.sub(r"[-_ ]", "", (run.precision or "bf16").lower())
    for pattern, precision in _PRECISIONS:
        if re.fullmatch(pattern, word):
            return precision
    raise not_one_of(run.precision, FORMATS, place=f"{run.id}: precision")


def sharding_of(run: MeasuredRun) -> Sharding:
    """Return what is sharded over data-parallel devices; raises `InputError` for a word that is not known."""
    word = _sharding_word(run.zero or "0")
    if word is None or word.sharding is None:
        names = [name for known in words_about(Aspect.SHARDING) for name in (known.name, *known.synonyms)]
        raise not_one_of(run.zero, names, place=f"{run.id}: zero")
    return word.sharding


def is_fully_shared(run: MeasuredRun) -> bool:
    """Whether parameters are sharded too."""
    word = _sharding_word(run.zero or "")
    return word is not None and word.sharding is Sharding.PARAMETERS


def _sharding_word(text: str) -> SoftwareWord | None:
    """Return the word of a sharding, which may be the number of its stage alone."""
    words = known_words()
    return words.get(normal(f"zero-{text}")) or words.get(normal(text))


def software_of(run: MeasuredRun) -> StatedSoftware:
    """Return what a run says of its software: its flags, and the scaling that its number format names.

    Raises:
        InputError: a word that is not known.
    """
    stated = stated_software(run.overlap_flags or "", place=f"{run.id}: overlap_flags")
    word = known_words().get(normal(run.precision or ""))
    if word is None or word.aspect is not Aspect.RECIPE or stated.about(Aspect.RECIPE) is not None:
        return stated
    return replace(stated, words=(*stated.words, word))


def recompute_of(run: MeasuredRun) -> str:
    """Return the recompute kind of all layers; ``none`` for a word that is no kind."""
    return _RECOMPUTE.get((run.recompute or "").lower(), "none")


def schedule_of(run: MeasuredRun) -> str | None:
    """Return the family of the run's schedule that has as many chunks; None: the usual one for them."""
    word = re.sub(r"[-_ ]", "", (run.schedule or "").lower())
    families = {name.replace("-", ""): name for name in FAMILIES}
    name = families.get(_SCHEDULES.get(word, word).replace("-", ""))
    if name is None or (run.pp or 1) == 1:
        return None
    return name if name not in _USUAL and FAMILIES[name].has_chunks(run.vpp or 1) else None
