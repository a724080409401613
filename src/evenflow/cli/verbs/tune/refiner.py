"""What answers ``--refine``: a value that an installed package brings."""

from evenflow import joining
from evenflow.torch_house import needs_torch_house
from evenflow.tune.answers.two_level import Refiner

REFINE = "--refine"


def refiner_named(name: str) -> Refiner:
    """Return the refiner with this name; raises InputError where the package that has it is not installed."""
    refiner = joining.joined(joining.REFINERS, Refiner).get(name)
    if refiner is None:
        raise needs_torch_house(place=f"{REFINE} {name}")
    return refiner
