"""A plan to simulate: in a file, or row by row on the command line."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields

import click

from evenflow.asking import asked_as, optional
from evenflow.baselines.even_plan import even_plan
from evenflow.cli.missing import missing_options
from evenflow.cli.shared.files.given_model import GivenModel, refuse_without_configuration
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.group_sizes import check_given_size
from evenflow.cli.shared.layer_counts import layers_by_chunk, parse_counts
from evenflow.cli.shared.model_config import ModelConfig, config_of, config_path
from evenflow.cli.shared.options import (
    ALLOWS_EMPTY,
    GROUP_OF,
    ONE_SCHEDULE,
    SHORTEST_WARM_UP,
    num_chunks,
    schedule_name,
)
from evenflow.cli.shared.training.configured_model import PipelineOptions
from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.model import Cells, Network, Plan, Sizes, cells
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.model_configuration import is_configuration
from evenflow.profiles.plan_file import parse_plan, parse_plan_file
from evenflow.questions import NUM_CHUNKS, NUM_MICROBATCHES, NUM_RANKS, NUM_SEQUENCE_SPLITS


def read_files(
    files: Sequence[str],
    configured: Callable[[ModelConfig, Plan | None], GivenModel],
    *,
    only_configured: Collection[str] = (),
) -> tuple[GivenModel, Plan | None]:
    """Read the model and the plan file, if there is one, told apart by what is in them.

    A layer file has `layers_description`, a plan file `layers`; a configuration is made a model by `configured`, with
    the plan that it is for, and alone has a use for the options `only_configured`. ``-`` is standard input. A plan file
    alone has the network and the messages of its plan; a layer file wins over both.
    """
    if len(files) > 2:
        raise InputError(value=list(files), rule=_("must be one layer file and at most one plan file"), place="FILES")
    models: list[GivenModel | ModelConfig] = []
    plans = []
    for file in map(config_path, files):
        text, place = read_text(file)
        fields = as_fields(load_json(text, file=place), file=place)
        if is_configuration(fields):
            models.append(config_of(fields, file))
        elif "layers" in fields and "layers_description" not in fields:
            plans.append((text, place))
        else:
            models.append(GivenModel(network=parse_layer_file(text, place=place)))
    if not any(isinstance(model, ModelConfig) for model in models):
        refuse_without_configuration(only_configured, place=", ".join(files))
    if len(models) == 1:
        plan = parse_plan(plans[0][0], place=plans[0][1]) if plans else None
        (model,) = models
        return configured(model, plan) if isinstance(model, ModelConfig) else model, plan
    alone = parse_plan_file(plans[0][0], place=plans[0][1]) if len(plans) == 1 else None
    if alone is None or alone.network is None:
        raise InputError(
            value=list(files),
            rule=_("must have one layer file, with 'layers_description'"),
            place="FILES",
            remedy=_("leave one out") if models else _("name the layer file too: this plan does not hold the model"),
        )
    return GivenModel(network=alone.network, communication=alone.communication), alone.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPlan:
    """The options of ``evenflow simulate`` that make a plan."""

    layers: tuple[str, ...] = optional(
        "--layers",
        default=(),
        metavar="N,N,…",
        is_multiple=True,
        help="Layers of each rank. Given once, they are dealt over the chunks of the rank in turn; or give it once "
        "for each chunk, in their order.",
    )
    recompute: tuple[str, ...] = optional(
        "--recompute",
        default=(),
        metavar="KIND=N,N,…",
        is_multiple=True,
        help="Layers of each rank that recompute under KIND; given once for each chunk, in their order.",
    )
    allow_empty: bool | None = field(
        default=None,
        metadata=asked_as(
            ALLOWS_EMPTY, help="Whether cells may hold no layer where the layers are dealt evenly.  [default: they may]"
        ),
    )
    ranks: int | None = field(
        default=None, metadata=asked_as(NUM_RANKS, help="Pipeline ranks; known from --layers or a plan file.")
    )
    chunks: int | None = field(
        default=None, metadata=asked_as(NUM_CHUNKS, help="Model chunks of each rank; known likewise.")
    )
    microbatches: int | None = field(default=None, metadata=NUM_MICROBATCHES)
    schedule: str | None = field(default=None, metadata=ONE_SCHEDULE)
    less_memory: bool = field(default=False, metadata=SHORTEST_WARM_UP)
    group_size: int | str | None = field(default=None, metadata=GROUP_OF)
    sequence_splits: int | None = field(
        default=None,
        metadata=asked_as(
            NUM_SEQUENCE_SPLITS, shows_default=False, help="Parts that each sequence is cut into.  [default: 1]"
        ),
    )

    def pipeline(self, plan: Plan | None) -> PipelineOptions:
        """Return the pipeline of the plan in a file, or of the options where there is none."""
        if plan is not None:
            return PipelineOptions(
                ranks=plan.num_ranks,
                microbatches=plan.num_microbatches,
                chunks=plan.num_chunks,
                schedule=None if plan.order else plan.schedule,
                group_size=plan.group_size,
                used_kinds=plan.used_kinds,
            )
        chunks = self._num_chunks()
        layers = layers_by_chunk(self.layers, num_chunks=chunks, place="--layers") if self.layers else ()
        return PipelineOptions(
            ranks=self._num_ranks(layers),
            microbatches=self.microbatches,
            chunks=chunks,
            schedule=self.schedule,
            group_size=self.group_size,
            allow_empty=self.allow_empty,
            used_kinds=tuple(text.partition("=")[0].strip() for text in self.recompute),
        )

    def check_unused(self) -> None:
        """Refuse the options beside a plan file, which says the same."""
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                raise InputError(
                    rule=_("must not be given beside a plan file, which says the same"),
                    place=_option(option.name),
                    remedy=_("leave the option out, or the plan file"),
                )

    def plan(self, network: Network) -> Plan:
        """Return the plan that the options describe; without `layers`, the layers are dealt evenly."""
        if self.microbatches is None:
            needed = {} if self.layers else {"--ranks": self.ranks}
            raise missing_options({**needed, "--microbatches": None}, elsewhere=_("a plan file"))
        chunks = self._num_chunks()
        layers = layers_by_chunk(self.layers, num_chunks=chunks, place="--layers") if self.layers else ()
        ranks = self._num_ranks(layers)
        splits = self.sequence_splits or 1
        family = schedule_name(self.schedule, num_chunks=chunks, less_memory=self.less_memory)
        sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=self.microbatches, sequence_splits=splits)
        check_given_size(self.group_size, schedule=family, sizes=sizes)
        if not layers:
            layers = even_plan(network, sizes, schedule=family, allow_empty=self.allow_empty is not False).layers
        return Plan(
            schedule=family,
            num_microbatches=self.microbatches,
            layers=layers,
            recompute={kind: cells(rows) for kind, rows in self._recompute_rows(ranks, chunks).items()},
            sequence_splits=splits,
            group_size=self.group_size if isinstance(self.group_size, int) else None,
        )

    def _num_chunks(self) -> int:
        """Return the chunks of each rank: as many as there are lists of layers, or as the options say."""
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


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
