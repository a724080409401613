"""Questions: what a field of a request asks, written once for its range, its option and its Python keyword."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from evenflow.language import looked_up
from evenflow.ranges import Range

_QUESTION = "question"
"""Key of a question in the metadata of a field."""

Metadata = Mapping[str, "Question"]
Arguments = ParamSpec("Arguments")
RequestType = TypeVar("RequestType")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a field of a request asks."""

    within: Range | None = None
    """Numbers that may be the answer; None: it is no number, or its type checks it."""
    place: str = ""
    """Name of the field in messages, which `looked_up` translates; empty: its name in Python."""
    option: str = ""
    """Option of the command line; empty: there is none."""
    no_option: str = ""
    """The option that says no, where `option` says yes; with neither, the default holds. Empty: there is none."""
    letter: str = ""
    """The option in one letter, such as ``-o``; empty: there is none."""
    help: str = ""
    """Help text of the option, which `looked_up` translates."""
    metavar: str | None = None
    """What stands for the value in the help; None: the name of its type."""
    choices: Sequence[str] = ()
    """Answers of which one is given; number formats go by both of their names. None: any."""
    read: Callable[[str], object] | None = None
    """What makes the value of the option's text; None: the range, the choices or the type of the field."""
    kind: object = None
    """Type of the option's value, as the command line knows it, where none of these says it."""
    shows_default: bool = False
    """Whether the help names the default."""
    typed_default: str = ""
    """Default as it is typed, where its value is another than the field's; empty: that of the field."""
    section: str = ""
    """Section of the help, which `looked_up` translates; empty: that of all other options."""
    is_optional: bool = False
    """Whether a file may answer in place of the option, although the request has no default."""
    is_multiple: bool = False
    """Whether the option may be given several times."""
    is_hidden: bool = False
    """Whether the help leaves the option out."""
    is_written: bool = False
    """Whether the answer is the path of a file that the command writes."""
    group: type | None = None
    """Dataclass whose fields are asked in place of this one; None: the field is asked itself."""


def asked(within: Range | None = None, **details: Any) -> Metadata:
    """Return the metadata of a dataclass field that asks for a number of a range, or has the `details` of a `Question`.

    >>> from evenflow.ranges import RANKS
    >>> asked(RANKS, option="--ranks")["question"].within.most
    10000
    """
    return {_QUESTION: Question(within=within, **details)}


def asked_as(metadata: Metadata, **changes: Any) -> Metadata:
    """Return the metadata of the same question with some details changed, such as the help text for one command."""
    return {_QUESTION: replace(metadata[_QUESTION], **changes)}


def optional(option: str, within: Range | None = None, *, default: Any = None, **details: Any) -> Any:
    """Return a dataclass field that an option may answer otherwise than its default; `details` are those of `asked`.

    >>> from evenflow.ranges import ROWS
    >>> optional("--rows", ROWS, default=10).default
    10
    """
    return field(default=default, metadata=asked(within, option=option, **details))


def question_of(asking: "Field[Any]") -> Question | None:
    """Return the question of a dataclass field; None where the field asks nothing."""
    question = asking.metadata.get(_QUESTION)
    assert question is None or isinstance(question, Question)
    return question


def check_fields(request: Any) -> None:
    """Raise `InputError` for a number of a dataclass that is outside the range of its field; None is no number."""
    for asking in fields(request):
        question, value = question_of(asking), getattr(request, asking.name)
        if question is not None and question.within is not None and value is not None:
            question.within.check(value, place=looked_up(question.place) if question.place else asking.name)


def _place_in_signature(keyword: inspect.Parameter) -> tuple[bool, bool]:
    """Return where a field stands: those that need no keyword, then those that must be given, then the others."""
    return keyword.kind is keyword.KEYWORD_ONLY, keyword.default is not keyword.empty


def takes(
    request: Callable[Arguments, RequestType],
) -> Callable[[Callable[[RequestType], Answer]], Callable[Arguments, Answer]]:
    """Make a function of one request a function of the request's fields, with their signature."""

    def decorated(function: Callable[[RequestType], Answer]) -> Callable[Arguments, Answer]:
        @wraps(function)
        def called(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Answer:
            return function(request(*arguments, **keywords))

        answer = inspect.signature(function).return_annotation
        keywords = sorted(inspect.signature(request).parameters.values(), key=_place_in_signature)
        signature = inspect.Signature(keywords, return_annotation=answer)
        called.__signature__ = signature  # type: ignore[attr-defined]  # what inspect and help read
        return called

    return decorated
