"""What stands for a network in Python: the value, or the path of its layer file."""

import os

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.network import Network
from evenflow.network_files import network_in

NetworkSource = Network | os.PathLike[str] | str
"""A network, or the path of the layer file that has it."""


def as_network(source: NetworkSource) -> Network:
    """Return the network that `source` stands for.

    Raises:
        InputError: a value that is neither, or a file that cannot be read or breaks a rule.
    """
    network = network_in(os.fspath(source)) if isinstance(source, str | os.PathLike) else source
    if isinstance(network, Network):
        return network
    raise InputError(
        value=source,
        rule=_("must be a Network, or the path of a layer file"),
        place="network",
        remedy=_("read a layer file with evenflow.read_layer_file"),
    )
