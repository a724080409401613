"""The pipeline layout of Megatron-LM: which layers every stage holds, as one string.

    Et*3|(t*4|)*6,tL      8 stages; the first has the embedding and 3 layers, the last a layer and the loss

A letter is a layer: `E` the embedding, `t` a transformer layer, `m` a layer of multi-token prediction, `L` the loss. A
bar ends a stage. ``*n`` repeats the letter, the bar or the group in round brackets before it; groups do not nest, and
commas mean nothing. Stage ``chunk * ranks + rank`` is that chunk of that rank. The other form is a list with the names
``embedding``, ``decoder``, ``mtp`` and ``loss`` for each stage. [Megatron-LM, `PipelineParallelLayerLayout`]
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from evenflow.errors import InputError
from evenflow.fields import not_one_of
from evenflow.language import _
from evenflow.model.plan import Cells, Plan, cells
from evenflow.ranges import LAYERS

_LETTERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
_ONE = r"[EtmL|](?:\*[0-9]+)?"
_LETTER = re.compile(r"(?P<letter>[EtmL|])(?:\*(?P<times>[0-9]+))?")
_GROUP = re.compile(rf"\((?P<letters>(?:{_ONE})+)\)\*(?P<times>[0-9]+)")
_LONGEST = 10 * LAYERS.most
"""Most letters and bars of a layout, all repetitions written out."""
_MOST_DIGITS = len(str(_LONGEST)) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronLayout:
    """A layout that Megatron-LM accepts, whatever the number of ranks."""

    layers: tuple[int, ...]
    """Transformer layers of every stage."""
    mtp_layers: tuple[int, ...]
    """Layers of multi-token prediction of every stage, all in one."""

    def cells(self, num_ranks: int, *, place: str, with_mtp: bool = False) -> Cells:
        """Return the transformer layers ``[chunk][rank]``, `with_mtp` those of multi-token prediction as well.

        Raises InputError where the stages are no whole chunks.
        """
        if num_ranks < 1 or len(self.layers) % num_ranks:
            raise InputError(
                value=len(self.layers),
                rule=_("must have as many stages as {ranks} ranks, or a multiple of it", ranks=num_ranks),
                place=place,
            )
        if any(self.mtp_layers[:-num_ranks]):
            rule = _("must have m in the last chunk of a rank")
            raise InputError(rule=rule, place=_stage(place, self._stage_of_mtp))
        counts = [count + with_mtp * more for count, more in zip(self.layers, self.mtp_layers, strict=True)]
        return cells([counts[first : first + num_ranks] for first in range(0, len(counts), num_ranks)])

    @property
    def _stage_of_mtp(self) -> int:
        return next(stage for stage, count in enumerate(self.mtp_layers) if count)


def parse_layout(value: object, *, place: str) -> MegatronLayout:
    """Return the layout in a string, or in a list of lists of names.

    >>> parse_layout("Et*3|(tt|)*2,L", place="layout").layers
    (3, 2, 2, 0)

    Raises:
        InputError: it is no layout that Megatron-LM accepts; names `place`, and where in it.
    """
    if isinstance(value, str):
        stages = write_out(value, place=place).split("|")
    elif isinstance(value, Sequence) and all(isinstance(row, Sequence) and not isinstance(row, str) for row in value):
        stages = ["".join(_letter(name, _stage(place, stage)) for name in row) for stage, row in enumerate(value)]
    else:
        rule = _("must be a string such as Et|tt|tL, or a list of lists of names")
        raise InputError(value=value, rule=rule, place=place)
    _check(stages, place)
    return MegatronLayout(
        layers=tuple(stage.count("t") for stage in stages), mtp_layers=tuple(stage.count("m") for stage in stages)
    )


def format_plan(plan: Plan, *, mtp_layers: int = 0) -> str:
    """Return the layout of a plan; `mtp_layers` are in its last stage where the plan does not count them."""
    if plan.mtp_layers:
        return format_layout(plan.layers, mtp_layers=plan.mtp_layers, are_counted=True)
    return format_layout(plan.layers, mtp_layers=mtp_layers)


def format_layout(layers: Cells, *, mtp_layers: int = 0, are_counted: bool = False) -> str:
    """Return the shortest plain layout of a table ``[chunk][rank]``; layers of multi-token prediction are last.

    They are the last layers of the table where they are counted, otherwise in the last stage. Equal stages in a row
    become a group where that is shorter.

    >>> format_layout(((3, 4, 4, 4), (4, 4, 4, 1)))
    'Et*3|(t*4|)*6,tL'
    >>> format_layout(((3, 4, 4, 1),), mtp_layers=1, are_counted=True)
    'Et*3|t*4|t*4|mL'
    """
    counts = [count for row in layers for count in row]
    predicted = [0] * (len(counts) - 1) + [mtp_layers]
    for stage in reversed(range(len(counts))) if are_counted else ():
        predicted[stage] = min(counts[stage], mtp_layers - sum(predicted[stage + 1 :]))
        counts[stage] -= predicted[stage]
    stages = [_repeated("t", count) + _repeated("m", more) for count, more in zip(counts, predicted, strict=True)]
    stages[0] = "E" + stages[0]
    stages[-1] += "L"
    return "".join(_run(f"{stage}|", len(list(equal))) for stage, equal in groupby(stages[:-1])) + stages[-1]


def _repeated(letter: str, count: int) -> str:
    return letter * count if count < 3 else f"{letter}*{count}"


def _run(stage: str, times: int) -> str:
    """Return equal stages in a row; a comma behind a group keeps its number apart from the next stage."""
    group = f"|*{times}" if stage == "|" else f"({stage})*{times}"
    if len(group) >= len(stage * times):
        return stage * times
    return group if stage == "|" else f"{group},"


def write_out(text: str, *, place: str) -> str:
    """Return a layout without commas, groups and numbers: only letters and bars.

    >>> write_out("Et*3|(tt|)*2,L", place="layout")
    'Ettt|tt|tt|L'

    Commas go first, as in Megatron-LM, where ``t*1,2`` is ``t*12``.
    """
    indices = [index for index, letter in enumerate(text) if letter != ","]
    plain = text.replace(",", "")

    def items() -> Iterator[tuple[str, str | None]]:
        position = 0
        while position < len(plain):
            group, letter = _GROUP.match(plain, position), _LETTER.match(plain, position)
            if group is not None:
                letters = _LETTER.finditer(group["letters"])
                yield _joined(((one["letter"], one["times"]) for one in letters), place), group["times"]
            elif letter is not None:
                yield letter["letter"], letter["times"]
            item = group or letter
            if item is None:
                raise InputError(
                    value=plain[position : position + 20],
                    rule=_("must be one of the letters E, t, m, L or a bar, or a group (...)*n of them"),
                    place=_("{place}, character {number}", place=place, number=indices[position] + 1),
                    remedy=_("groups do not nest; *n repeats what is before it"),
                )
            position = item.end()

    return _joined(items(), place)


def _joined(items: Iterable[tuple[str, str | None]], place: str) -> str:
    """Return the texts in a row, each as often as its number says; raises InputError where that is too long."""
    texts: list[str] = []
    length = 0
    for text, number in items:
        times = 1 if number is None else int(number.lstrip("0")[:_MOST_DIGITS] or "0")  # enough digits to be too many
        length += len(text) * times
        if length > _LONGEST:
            rule = _("must have at most {most:,} letters and bars when it is written out", most=_LONGEST)
            raise InputError(rule=rule, place=place)
        texts.append(text * times)
    return "".join(texts)


def _letter(name: object, place: str) -> str:
    letter = _LETTERS.get(name.strip().lower()) if isinstance(name, str) else None
    if letter is None:
        raise not_one_of(name, _LETTERS, place=place)
    return letter


def _check(stages: list[str], place: str) -> None:
    """Raise InputError unless the layers are in an order that Megatron-LM accepts."""
    everything = "".join(stages)
    if not everything.startswith("E") or everything.count("E") > 1:
        raise InputError(rule=_("must have E once, before all others"), place=place)
    if not everything.endswith("L") or everything.count("L") > 1:
        raise InputError(rule=_("must have L once, behind all others"), place=place)
    if "t" in everything.partition("m")[2]:
        raise InputError(rule=_("must have m behind every t"), place=place)
    if sum("m" in stage for stage in stages) > 1:
        raise InputError(rule=_("must have every m in one stage"), place=place)
    if everything.count("t") > LAYERS.most:
        raise InputError(value=everything.count("t"), rule=LAYERS.rule, place=place)


def _stage(place: str, stage: int) -> str:
    return _("{place}, stage {stage}", place=place, stage=stage)
