"""A model in parts: modules that run on their own, and the row they stand in. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from evenflow.errors import InputError
from evenflow.language import _

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A module of a model that runs on its own: a layer, or an end of the model.

    `inputs`, where they are known, are one microbatch, of which only shapes and types matter: the tensors may be on the
    meta device.
    """

    name: str
    """The name in messages and results, such as ``LlamaDecoderLayer.3``."""
    module: "nn.Module"
    inputs: tuple[Any, ...] = ()
    """Positional inputs; the first is what the part before hands over, and its gradient is the input gradient."""
    named_inputs: Mapping[str, Any] = field(default_factory=dict)
    """Inputs by keyword, such as masks and position embeddings."""
    index_limit: int = 2
    """Integer inputs of a measurement are below this."""
    path: str = ""
    """Path of the module in the whole model, with which the names of its parameters begin."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Path in the whole model by name of the submodule, for a module gathered from several places."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of parameters in the whole model by name in the module, where path and name together are not it."""
    position: int = 0
    """Place in the whole row, on which random numbers depend."""
    keeps_shape: bool = False
    """Whether the result is known to have the shape and type of the input, so that nobody has to try."""
    batch_inputs: tuple[str, ...] = ()
    """Names of tensors of the batch that it takes by keyword, such as masks, where the batch has them."""

    @property
    def takes_gradient(self) -> bool:
        """Whether there is a part before that needs the gradient of the first input."""
        return bool(self.inputs[0].is_floating_point())

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths of the gathered modules in the whole model, or the one path."""
        return tuple(self.paths.values()) or (self.path,)

    def full_name(self, parameter: str) -> str:
        """Return the name in the whole model of a parameter by its name in the module."""
        if parameter in self.names:
            return self.names[parameter]
        for inside, path in self.paths.items():
            if parameter.startswith(f"{inside}."):
                return path + parameter[len(inside) :]
        return f"{self.path}.{parameter}" if self.path else parameter


class Traced(Protocol):
    """What traces a model anew, for parts that run as they were traced."""

    def prepare(self, inputs: Any, *, training: bool) -> None:
        """Make the parts run for inputs of one microbatch, in training or evaluation."""

    def input_tensors(self, inputs: Any) -> "tuple[Tensor, Mapping[str, Tensor]]":
        """Return what the first part takes of the inputs of a batch, and all of them by name."""


Context = Callable[["Tensor", Part], Mapping[str, Any]]
"""Makes what a part takes by keyword beside its first input, from that input: masks, rotary embeddings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """A model as parts in order, each of which takes what the one before hands over.

    ::

        head | body[0]  body[1]  ...  body[n - 1] | tail

    A plan cuts between the layers of the body; the head goes with the first of them, the tail with the last.
    """

    name: str = "model"
    head: tuple[Part, ...] = ()
    body: tuple[Part, ...]
    tail: tuple[Part, ...] = ()
    whole: Any = None
    """The unsplit model, where it is at hand."""
    whole_logits: "Callable[[Tensor], Tensor] | None" = None
    """Makes the result of the unsplit model of its input, where that is not all that it takes."""
    context: Context | None = None
    """Makes the keywords of a part for any input; without it, parts take one tensor."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Names of parameters that are one and the same, such as tied embeddings."""
    notes: tuple[str, ...] = ()
    """What a user should know about the row, a sentence each."""
    traced: Traced | None = None
    """What parts are traced with, for other shapes and for evaluation; None: they run as they are."""

    def __post_init__(self) -> None:
        if not self.body:
            raise InputError(value=0, rule=_("must have at least one layer"), place=self.name)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Head, body and tail in order."""
        return self.head + self.body + self.tail

    @property
    def num_layers(self) -> int:
        """Number of layers that a plan counts, those of the body."""
        return len(self.body)

    @property
    def num_parameters(self) -> int:
        """Number of parameters of all parts; shared ones count once."""
        every = {id(parameter): parameter for part in self.parts for parameter in part.module.parameters()}
        return sum(parameter.numel() for parameter in every.values())


def shared_names(parts: tuple[Part, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the names of parameters that are one and the same, in groups."""
    names: dict[int, list[str]] = {}
    for part in parts:
        for name, parameter in part.module.named_parameters(prefix=part.path, remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)
