"""A plan to simulate: in a file, or row by row on the command line."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from evenflow.baselines.even_plan import even_plan
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.group_sizes import check_asked
from evenflow.cli.shared.layer_counts import layers_by_chunk, parse_counts
from evenflow.cli.shared.options import num_chunks, schedule_name
from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.model import Cells, Communication, Network, Plan, Sizes, cells
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_file import parse_plan, parse_plan_file


def read_files(files: Sequence[str]) -> tuple[Network, Plan | None, Communication | None]:
    """Read the layer file and the plan file, if there is one, told apart by what is in them.

    A layer file has `layers_description`, a plan file `layers`. ``-`` is standard input. A plan file alone has the
    network and the messages of its plan; a layer file wins over both.
    """
    if len(files) > 2:
        raise InputError(value=list(files), rule=_("must be one layer file and at most one plan file"), place="FILES")
    networks, plans = [], []
    for file in files:
        text, place = read_text(file)
        fields = as_fields(load_json(text, file=place), file=place)
        if "layers" in fields and "layers_description" not in fields:
            plans.append((text, place))
        else:
            networks.append(parse_layer_file(text, place=place))
    if len(networks) == 1:
        return networks[0], parse_plan(plans[0][0], place=plans[0][1]) if plans else None, None
    alone = parse_plan_file(plans[0][0], place=plans[0][1]) if len(plans) == 1 else None
    if alone is None or alone.network is None:
        raise InputError(
            value=list(files),
            rule=_("must have one layer file, with 'layers_description'"),
            place="FILES",
            remedy=_("leave one out") if networks else _("name the layer file too: this plan does not hold the model"),
        )
    return alone.network, alone.plan, alone.communication


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlan:
    """The options of ``evenflow simulate`` that make a plan."""

    layers: tuple[str, ...] = ()
    recompute: tuple[str, ...] = ()
    ranks: int | None = None
    chunks: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    less_memory: bool = False
    group_size: int | str | None = None
    sequence_splits: int | None = None

    def check_unused(self) -> None:
        """Refuse the options beside a plan file, which says the same."""
        for field in self.__slots__:
            if getattr(self, field):
                raise InputError(
                    value=None,
                    rule=_("must not be given beside a plan file, which says the same"),
                    place=_option(field),
                    remedy=_("leave the option out, or the plan file"),
                )

    def plan(self, network: Network) -> Plan:
        """Return the plan that the options describe; without `layers`, the layers are dealt evenly."""
        if self.microbatches is None:
            raise click.UsageError(_("Missing option '--microbatches', or a plan file"))
        chunks = self._num_chunks()
        layers = layers_by_chunk(self.layers, num_chunks=chunks, place="--layers") if self.layers else ()
        ranks = self._num_ranks(layers)
        splits = self.sequence_splits or 1
        family = schedule_name(self.schedule, num_chunks=chunks, less_memory=self.less_memory)
        sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=self.microbatches, sequence_splits=splits)
        check_asked(self.group_size, schedule=family, sizes=sizes)
        if not layers:
            layers = even_plan(network, sizes, schedule=family).layers
        return Plan(
            schedule=family,
            num_microbatches=self.microbatches,
            layers=layers,
            recompute={kind: cells(rows) for kind, rows in self._recompute_rows(ranks, chunks).items()},
            sequence_splits=splits,
            group_size=self.group_size if isinstance(self.group_size, int) else None,
        )

    def _num_chunks(self) -> int:
        """Return the chunks of each rank: so many lists of layers as there are, or those of the options."""
        if len(self.layers) > 1 and self.chunks is None:
            return len(self.layers)
        return num_chunks(self.chunks, schedule=self.schedule)

    def _num_ranks(self, layers: Cells) -> int:
        if not layers:
            if self.ranks is None:
                raise click.UsageError(_("Missing option '--layers', or '--ranks' to deal the layers evenly"))
            return self.ranks
        if self.ranks not in (None, len(layers[0])):
            raise InputError(
                value=self.ranks, rule=_("must be {count}, as --layers is given", count=len(layers[0])), place="--ranks"
            )
        return len(layers[0])

    def _recompute_rows(self, num_ranks: int, num_chunks: int) -> dict[str, list[list[int]]]:
        rows: dict[str, list[list[int]]] = {}
        for text in self.recompute:
            kind, equals, numbers = text.partition("=")
            if not equals:
                raise InputError(value=text, rule=_("must be KIND=N,N,…, such as full=5,4,3,2"), place="--recompute")
            rows.setdefault(kind.strip(), []).append(parse_counts(numbers, f"--recompute {kind.strip()}"))
        for kind, table in rows.items():
            if len(table) != num_chunks or any(len(row) != num_ranks for row in table):
                raise InputError(
                    value=table,
                    rule=_(
                        "must be given once for each of the {num_chunks} chunks, with a number for each of the "
                        "{num_ranks} ranks",
                        num_chunks=num_chunks,
                        num_ranks=num_ranks,
                    ),
                    place=f"--recompute {kind}",
                )
        return rows


def _option(field: str) -> str:
    return "--" + field.replace("_", "-")
