"""What evenflow reads of a configuration, beside what transformers builds of it."""

import re
from dataclasses import dataclass, replace
from typing import Any

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.predict.parameters import model_parameters
from evenflow.profiles.transformer.config_file import transformer_of_config

NEAR = 0.01
"""Share of its parameters by which a model may be off."""
_GUESSED = "it is read by its fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Both counts of a model's parameters; None where there is none."""

    name: str
    built: int | None
    read: int | None
    refusal: str = ""
    """Why evenflow does not read it."""
    failure: str = ""
    """Why transformers does not build it."""
    is_guessed: bool = False
    """Whether evenflow does not know the type and says so."""

    @property
    def difference(self) -> float:
        """How much more parameters are read than built, in shares of these."""
        return self.read / self.built - 1 if self.read is not None and self.built else 0.0

    @property
    def kind(self) -> str:
        """What came out, in one word."""
        if self.read is None:
            return "refused"
        if self.built is None:
            return "unbuilt"
        if self.read == self.built:
            return "equal"
        return "near" if abs(self.difference) <= NEAR else "off"

    @property
    def is_wrong(self) -> bool:
        """Whether it is off by more than it may be, or differs though its type is known."""
        return self.kind == "off" or (self.kind == "near" and not self.is_guessed)

    @property
    def line(self) -> str:
        """Return it as a line of a table."""
        counts = " ".join(f"{'' if count is None else count:>17,}" if count else " " * 17 for count in self.counts)
        note = self.refusal or self.failure or (f"{self.difference:+.3%}" if self.kind in ("near", "off") else "")
        return f"{self.name:28} {self.kind:8} {counts}  {note}{', by its fields' if self.is_guessed else ''}"

    @property
    def counts(self) -> tuple[int | None, int | None]:
        """Built and read parameters."""
        return self.built, self.read


def outcome(name: str, found: dict[str, Any]) -> Outcome:
    """Return what came out for a model that was built, or was not."""
    if "config" not in found:
        return Outcome(name=name, built=None, read=None, refusal="its defaults are refused by transformers")
    built, failure = found.get("parameters"), str(found.get("error", ""))
    try:
        described = transformer_of_config(as_fields(found["config"], file="config.json"))
    except InputError as error:
        reason = re.sub(r"^config.json:? *|, got .*$", "", str(error))
        return Outcome(name=name, built=built, read=None, refusal=reason, failure=failure)
    read = model_parameters(replace(described.model, predicted_tokens=0))
    is_guessed = any(_GUESSED in note for note in described.notes)
    return Outcome(name=name, built=built, read=read, failure=failure, is_guessed=is_guessed)
