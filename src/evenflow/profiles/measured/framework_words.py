"""Translates frameworks' words for number formats, sharding, recomputation and schedules into those of a training."""

import re
from collections.abc import Mapping

from evenflow.fields import not_one_of
from evenflow.predict.training import FORMATS, Sharding
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.schedule import FAMILIES

_PRECISIONS = ((r"(nv|mx)?fp4.*", "nvfp4"), (r"(mx|amp)?fp8.*|float8.*", "fp8"), (r"(amp)?bf16|bfloat16", "bf16"),
               (r"(amp)?fp16|float16", "fp16"), (r"fp32|tf32|float32", "fp32"))  # fmt: skip
"""Patterns of names without dashes and underscores: recipes of scaling, such as mxfp8, are not told apart."""
_SHARDINGS: Mapping[str, Sharding] = {
    "0": Sharding.NOTHING, "1": Sharding.OPTIMIZER, "distopt": Sharding.OPTIMIZER, "2": Sharding.GRADIENTS,
    "3": Sharding.PARAMETERS, "fsdp": Sharding.PARAMETERS, "fsdp2": Sharding.PARAMETERS, "hsdp": Sharding.PARAMETERS,
}  # fmt: skip
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
    word = (run.zero or "0").lower()
    if word not in _SHARDINGS:
        raise not_one_of(run.zero, _SHARDINGS, place=f"{run.id}: zero")
    return _SHARDINGS[word]


def is_fully_shared(run: MeasuredRun) -> bool:
    """Whether parameters are sharded too."""
    return _SHARDINGS.get((run.zero or "").lower()) is Sharding.PARAMETERS


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
