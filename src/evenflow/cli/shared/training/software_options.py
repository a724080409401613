"""The options that say what a framework does with the same mathematics."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.asking import Metadata, asked, optional
from evenflow.cli.shared.training.sections import SOFTWARE
from evenflow.cli.shared.training.software_text import Said, said_software
from evenflow.errors import InputError
from evenflow.fields import not_one_of
from evenflow.language import _
from evenflow.predict.overlaps import OVERLAPS, overlaps_named, usual
from evenflow.predict.recipes import OF_FORMATS
from evenflow.predict.training import CONTEXT_EXCHANGES, Software
from evenflow.predict.vocabulary import Aspect, short_name, word_about, words_about, words_of

_OPTIONS: dict[str, tuple[Aspect, ...]] = {
    "token_dispatcher": (Aspect.DISPATCHER,),
    "attention": (Aspect.ATTENTION,),
    "elementwise": (Aspect.ELEMENTWISE,),
    "cuda_graphs": (Aspect.GRAPHS,),
    "overlap": tuple(Aspect(name) for name in OVERLAPS),
    "gradient_dtype": (Aspect.GRADIENT_DTYPE,),
}
"""What options are about."""


def _way(option: str, choices: tuple[str, ...], help_text: str) -> Metadata:
    return asked(option=option, section=SOFTWARE, choices=choices, shows_default=True, help=help_text)


def _about(option: str, aspect: Aspect, help_text: str) -> Metadata:
    """Return the question for a word about one thing, by any of its names."""
    names = [short_name(word) for word in words_about(aspect)]
    return asked(
        option=option,
        section=SOFTWARE,
        read=_reader(option, aspect, names),
        metavar="|".join(names),
        shows_default=True,
        help=help_text,
    )


def _reader(option: str, aspect: Aspect, names: list[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = word_about(aspect, text)
        if word is None:
            raise not_one_of(text, names, place=option)
        return short_name(word)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareOptions:
    """What was given of the framework's ways."""

    software: str | None = optional(
        "--software",
        section=SOFTWARE,
        metavar="NAME,…",
        help="A framework with or without its version, such as megatron-0.16, and words for what else it does, such as "
        "deepep, async-tp or rowwise.",
    )
    context_exchange: str = field(
        default="ring",
        metadata=_way(
            "--context-exchange",
            tuple(CONTEXT_EXCHANGES),
            "How devices that share a sequence exchange keys and values.",
        ),
    )
    token_dispatcher: str = field(
        default="alltoall",
        metadata=_about(
            "--token-dispatcher",
            Aspect.DISPATCHER,
            "How tokens go to experts: a copy for each expert, or one for each node (DeepEP, HybridEP).",
        ),
    )
    attention: str = field(
        default="fused",
        metadata=_about(
            "--attention",
            Aspect.ATTENTION,
            "One kernel that keeps no scores (FlashAttention), or operator by operator.",
        ),
    )
    elementwise: str = field(
        default="fused",
        metadata=_about(
            "--elementwise",
            Aspect.ELEMENTWISE,
            "Norms, activation functions and residuals: fused or compiled, or one by one.",
        ),
    )
    cuda_graphs: bool = optional(
        "--cuda-graphs", default=False, section=SOFTWARE, help="Launches are captured in graphs."
    )
    overlap: tuple[str, ...] = field(
        metadata=asked(
            option="--overlap",
            section=SOFTWARE,
            metavar="NAME,…",
            read=overlaps_named,
            typed_default=usual(OVERLAPS),
            shows_default=True,
            help=f"What runs under computation: some of {', '.join(OVERLAPS)}; or none.",
        )
    )
    gradient_dtype: str = field(
        default="fp32",
        metadata=_about(
            "--gradient-dtype",
            Aspect.GRADIENT_DTYPE,
            "Number format in which gradients are kept and reduced.",
        ),
    )

    def settled(
        self, precision: str, *, usual: Software | None = None, given: Collection[str] = ()
    ) -> "SettledSoftware":
        """Return what the options say, for a number format of the linear layers.

        Beside the `usual` of a framework, or one that `--software` names, only the options that were `given` count.

        Raises:
            InputError: a word that is not known, options about the same thing, or a recipe of another format.
        """
        said = Said() if self.software is None else said_software(self.software, precision)
        self._check(said, precision, given)
        software = said.usual or usual
        if software is None:
            software = self._changed(Software(), _OPTIONS)
        software = self._changed(said.stated.applied(software), [name for name in _OPTIONS if name in given])
        return SettledSoftware(software=software, said=said)

    def _changed(self, software: Software, names: Iterable[str]) -> Software:
        """Return software with what some options say."""
        for name in names:
            software = replace(software, **self._changes(name))
        return software

    def _changes(self, name: str) -> dict[str, Any]:
        """Return what one option changes."""
        if name == "cuda_graphs":
            return {"captured_graphs": self.cuda_graphs}
        if name == "overlap":
            return {f"overlaps_{one}": one in self.overlap for one in OVERLAPS}
        word = word_about(_OPTIONS[name][0], getattr(self, name))
        assert word is not None
        return dict(word.changes)

    def _check(self, said: Said, precision: str, given: Collection[str]) -> None:
        for name, aspects in _OPTIONS.items():
            word = next((word for aspect in aspects if (word := said.stated.about(aspect))), None)
            if name in given and word is not None:
                rule = _(
                    "must not say {word} beside {option}, which is about the same",
                    word=word.name,
                    option=f"--{name.replace('_', '-')}",
                )
                raise InputError(
                    value=self.software, rule=rule, place="--software", remedy=_("leave one of the two out")
                )
        recipe = said.stated.about(Aspect.RECIPE)
        if recipe is not None and recipe.name not in OF_FORMATS.get(precision, ()):
            of = next(wide for wide, recipes in OF_FORMATS.items() if recipe.name in recipes)
            rule = _("must not say {word} for {precision}", word=recipe.name, precision=precision)
            remedy = _("add --precision {precision}", precision=of)
            raise InputError(value=self.software, rule=rule, place="--software", remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledSoftware:
    """What a framework does, and what of that was said."""

    software: Software
    said: Said

    def left_open(self, precision: str, *, given: Collection[str], has_experts: bool) -> Iterator[str]:
        """Yield options that were not `given`, with the values they have, and what a named framework is taken for."""
        written = written_out(self.software)
        if not has_experts:
            del written["token_dispatcher"]
        told = {aspect for aspect in Aspect if self.said.stated.about(aspect)}
        for name in written:
            is_told = bool(told & set(_OPTIONS[name])) if name != "overlap" else False
            if name not in given and not is_told and not self.said.name:
                yield f"--{name.replace('_', '-')}={written[name]}"
        recipes = OF_FORMATS.get(precision, ())
        if recipes and Aspect.RECIPE not in told and not self.said.name:
            yield f"--software={self.software.recipe or recipes[0]}"
        if self.said.name:
            settled = {*told, *(aspect for name in given if name in _OPTIONS for aspect in _OPTIONS[name])}
            words = [word.name for word in words_of(self.software) if word.aspect not in (*settled, Aspect.RECIPE)]
            if recipes and Aspect.RECIPE not in told:
                words.append(self.software.recipe or recipes[0])
            yield _("{name} is taken to have {words}", name=self.said.name, words=", ".join(words))
        if self.said.stated.unpriced:
            yield _("not priced: {words}", words=", ".join(self.said.stated.unpriced))


def written_out(software: Software) -> dict[str, str]:
    """Return the values that the options have for what a framework does, by the names of their parameters."""
    words = {word.aspect: short_name(word) for word in words_of(software)}
    overlaps = [name for name in OVERLAPS if getattr(software, f"overlaps_{name}")]
    values = {name: words.get(aspects[0], "") for name, aspects in _OPTIONS.items() if name != "cuda_graphs"}
    return {**values, "overlap": ",".join(overlaps) or "none"}
