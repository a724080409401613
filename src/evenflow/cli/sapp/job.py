"""The model that a call of the balancer's command is about, and what is planned for it: its files read and checked."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import click

from evenflow.cli.sapp.balancer_settings import BalancerSettings, check_layers, settings_of
from evenflow.cli.shared.init_model import write_layer_file
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network, Request
from evenflow.profiles.init.init_planning import PIPELINE, read_init_planning
from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.training_file import read_training_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A model, and the settings that it is planned with."""

    network: Network
    settings: BalancerSettings
    layer_file: Path | None = None

    @classmethod
    def read(cls, flags: argparse.Namespace) -> "Job":
        """Read the files that the flags name, and make the layer file of an init file with measurements."""
        init = None if flags.init is None else read_init_planning(flags.init)
        training = None if flags.training_config is None else read_training_sizes(flags.training_config)
        settings = settings_of(flags, init=init, training=training)
        is_made = init is not None and init.has_measurements
        layer_file = _layer_file(flags.layer_folder, flags.model_name, made=is_made)
        if is_made:
            write_layer_file(flags.init, layer_file, name=layer_file.stem, overwrite=flags.overwrite)
        network = settings.applied(read_layer_file(layer_file))
        for note in settings.notes:
            click.echo(_("note: {note}", note=note), err=True)
        if init is not None:
            check_layers(network, init.num_layers, place=f"{init.file}: {PIPELINE}.num_layer")
        if training is not None:
            check_layers(network, training.num_layers, place=training.layers_place)
        return cls(network=network, settings=settings, layer_file=layer_file)

    @property
    def request(self) -> Request:
        """The request for the solver; without memory in the model no limit is checked."""
        settings = self.settings
        return Request(
            network=self.network,
            sizes=settings.sizes,
            memory_limit_bytes=settings.memory_limit_bytes if self.network.has_memory else None,
            allow_empty=False,
            communication=settings.communication,
        )


def _layer_file(folder: Path, name: str, *, made: bool) -> Path:
    """Return the path ``folder/name.json``, which must exist unless the file is `made` now; `name` may end in .json."""
    path = folder / (name if name.endswith(".json") else f"{name}.json")
    if not made and not path.is_file():
        names = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) if folder.is_dir() else ""
        raise InputError(
            value=str(path),
            rule=_("must name a layer file that is there"),
            place="-m",
            remedy=_("{folder}/ has: {names}", folder=folder, names=names) if names else _("name its folder with -lf"),
        )
    return path
