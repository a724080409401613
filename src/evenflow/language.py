"""The language of every sentence: written in English where it is said, and looked up in a catalogue for Chinese.

The English text is the key, as in gettext, and values go into it by name::

    _("must be at most {limit}", limit=8)

Names of options, fields, kinds and files are never translated. A library call speaks English until a program chooses
(`speaking`); the commands choose by ``--lang`` and the locale. What programs read is always English (`english`).
"""

import gettext
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from pathlib import Path, PurePath
from typing import Any

from evenflow.plain_text import is_on_one_line, on_one_line

ENGLISH, CHINESE = "en", "zh"
LANGUAGES = (ENGLISH, CHINESE)
VARIABLE = "EVENFLOW_LANG"
"""The environment variable that decides before the locale does."""
CATALOGUES = Path(__file__).parent / "locale"
"""``LANGUAGE/LC_MESSAGES/evenflow.po``, and ``.mo`` made of it; in English there is nothing to look up."""

_spoken = [ENGLISH]
"""The languages that were chosen, one within the other; the last is spoken now."""
_says_stage = [False]
"""Whether ranks are called stages, likewise (`saying_stage`)."""
_RANK = re.compile(r"(?<![-{\w])rank(s?)\b")
"""The word in a message, apart from options and values."""
_BLANK = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")


class Message(str):
    """A sentence in another language that knows its English."""

    __slots__ = ("english",)
    english: str


def _(message: str, /, **values: object) -> str:
    """Return `message` in the language spoken now, with `values` in their places.

    Texts among the values stand on one line, whatever they hold: a name must not look like a line of evenflow's own.

    >>> _("must be at most {limit}", limit=8)
    'must be at most 8'
    >>> with speaking(CHINESE):
    ...     print(_("must be above zero"))
    必须大于零
    """
    if spoken() == ENGLISH:
        message = _in_words(message)
        return _filled(message, values) if values else message
    return _translated(message, _catalogue(spoken()).gettext(message), values)


def _n(singular: str, plural: str, /, *, count: int, **values: object) -> str:
    """Return the message in the singular or the plural, as `count` asks, which is also a value.

    >>> _n("{count} layer", "{count} layers", count=2)
    '2 layers'
    """
    message = singular if count == 1 else plural
    values["count"] = count
    if spoken() == ENGLISH:
        return _filled(_in_words(message), values)
    return _translated(message, _catalogue(spoken()).ngettext(singular, plural, count), values)


def joined(texts: Iterable[str]) -> str:
    """Join texts with semicolons; messages among them stay translatable in the result.

    >>> joined(["8 ranks", "2 chunks"])
    '8 ranks; 2 chunks'
    """
    return reduce(lambda before, text: _("{before}; {text}", before=before, text=text), texts)


def to_translate(message: str) -> str:
    """Return `message` as it is: the catalogues have this constant, and `looked_up` translates it where it is shown."""
    return message


def _translated(message: str, translation: str, values: Mapping[str, object]) -> Message:
    """Fill the values into both texts; a value that is a message goes into each in its language."""
    translation = _in_words(translation)
    text = Message(_filled(translation, values) if values else translation)
    originals = {name: english(value) if isinstance(value, str) else value for name, value in values.items()}
    text.english = _filled(message, originals) if values else message
    return text


def _filled(message: str, values: Mapping[str, object]) -> str:
    """Return `message` with `values` in their places, each text on one line."""
    if all(is_on_one_line(str(value)) for value in values.values() if isinstance(value, str | PurePath)):
        return message.format(**values)
    return _OneLineFormatter().vformat(message, (), values)


class _OneLineFormatter(string.Formatter):
    """Formats texts on one line; `repr` of a text, which a message may ask for, has escapes already."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        """Return a value as it stands in the message."""
        text = super().format_field(value, format_spec)
        return on_one_line(text) if isinstance(value, str | PurePath) else text


def _in_words(message: str) -> str:
    """Return a message, before its values are in, in the words that are used now for the same things."""
    if not _says_stage[-1]:
        return message
    if spoken() == ENGLISH:
        return _RANK.sub(r"stage\1", message)
    return _BLANK.sub("", _RANK.sub("阶段", message))


def english(text: str) -> str:
    """Return the English of a message, in whichever language it is; any other text as it is.

    >>> with speaking(CHINESE):
    ...     english(_("must be above zero"))
    'must be above zero'
    """
    return text.english if isinstance(text, Message) else text


def looked_up(text: str) -> str:
    """Return the translation of a `text` that was written apart from `_`, such as a docstring; without one, `text`."""
    return text if spoken() == ENGLISH or not text else _catalogue(spoken()).gettext(text)


def spoken() -> str:
    """Return the language that messages are in now: one of `LANGUAGES`."""
    return _spoken[-1]


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Let messages be in another language for a while; all threads speak the same."""
    assert language in LANGUAGES, language
    _spoken.append(language)
    try:
        yield
    finally:
        _spoken.pop()


@contextmanager
def saying_stage() -> Iterator[None]:
    """Let messages say stage where evenflow says rank for a while, as the documents of the SAPP balancer do.

    >>> with saying_stage():
    ...     print(_("must be on the {num_ranks} ranks of the plan", num_ranks=8))
    must be on the 8 stages of the plan
    """
    _says_stage.append(True)
    try:
        yield
    finally:
        _says_stage.pop()


def language_of(environment: Mapping[str, str]) -> str:
    """Return the language that an environment asks for: its own variable first, then the locale as gettext reads it.

    >>> language_of({"LANG": "zh_CN.UTF-8"}), language_of({"LANG": "de_DE.UTF-8"}), language_of({})
    ('zh', 'en', 'en')
    """
    if environment.get(VARIABLE):
        return _known(environment[VARIABLE]) or ENGLISH
    locale = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "C")
    if locale.partition(".")[0] in ("C", "POSIX"):  # then LANGUAGE has no say
        return ENGLISH
    wanted = [*environment.get("LANGUAGE", "").split(":"), locale]
    return next(filter(None, map(_known, wanted)), ENGLISH)


def _known(locale: str) -> str | None:
    """Return the language of a locale such as ``zh_CN.UTF-8``, if messages are there in it."""
    return next((language for language in LANGUAGES if locale.lower().startswith(language)), None)


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    """Return the messages of a language, read when the first of them is needed."""
    return gettext.translation("evenflow", CATALOGUES, languages=[language], fallback=True)
