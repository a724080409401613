"""The options of ``evenflow run``."""

from dataclasses import dataclass
from pathlib import Path

from evenflow.cli.shared.files.input_files import read_text
from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.profiles.mesh_plan_file import parse_mesh_plan, parse_sizes
from evenflow.profiles.plan_file import parse_memory_limit, parse_plan
from evenflow_torch.models.families.table import FAMILIES
from evenflow_torch.run.values.run_job import TINY, Device, RunJob
from evenflow_torch.text.aa_text import parse_fault

_SEQUENCE, _MICROBATCH = 128, 1
"""Tokens of a sequence and sequences of a microbatch, where neither the options nor the plan say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of ``evenflow run``, as click passes them."""

    plan_file: str
    model: str
    steps: int
    seq: int | None
    target_seq: int | None
    microbatch: int | None
    layers: int | None
    hidden: int | None
    heads: int | None
    vocab: int | None
    dtype: Dtype
    lr: float
    device: str | None
    seed: int
    verify: bool
    aa_check: bool
    aa_everywhere: bool
    inject_fault: tuple[str, ...]
    json_file: Path | None
    svg_file: Path | None
    trace_file: Path | None
    timeline_file: Path | None
    html_file: Path | None
    overwrite: bool
    rank_timeout: float
    as_rank: bool

    def job(self, text: str, place: str) -> RunJob:
        """Return the run, from the text of the plan file and the model's configuration."""
        config = "" if self.model == TINY else read_text(self.model)[0]
        has_source = bool(config) and _has_source(as_fields(load_json(config, file=self.model), file=self.model))
        if self.target_seq and not has_source:
            raise InputError(
                value=self.target_seq,
                rule=_("must not be given for a model without encoder and decoder"),
                place="--target-seq",
                remedy=_("leave it out; --seq is the length of a sequence"),
            )
        aa_check = self.aa_check or self.aa_everywhere
        if self.inject_fault and not aa_check:
            raise InputError(
                rule=_("must come with --aa-check, which is to find the fault"),
                place="--inject-fault",
                remedy=_("add --aa-check"),
            )
        mesh_plan = parse_mesh_plan(text, place=place)
        sequence, target, microbatch = (
            (_SEQUENCE, self.seq or _SEQUENCE, _MICROBATCH) if mesh_plan is None else parse_sizes(text, place=place)
        )
        return RunJob(
            plan=parse_plan(text, place=place),
            memory_limit_bytes=parse_memory_limit(text, place=place),
            mesh_plan=mesh_plan,
            model=self.model,
            config=config,
            num_layers=self.layers,
            hidden_size=self.hidden,
            num_heads=self.heads,
            vocab_size=self.vocab,
            num_steps=self.steps,
            sequence_length=self.seq or sequence,
            target_length=(self.target_seq or target) if has_source else 0,
            microbatch_size=self.microbatch or microbatch,
            dtype=self.dtype,
            learning_rate=self.lr,
            device=Device(self.device) if self.device else None,
            seed=self.seed,
            verify=self.verify,
            aa_check=aa_check,
            aa_everywhere=self.aa_everywhere,
            faults=tuple(map(parse_fault, self.inject_fault)),
        )


def _has_source(config: Fields) -> bool:
    """Return whether a configuration is that of a model with encoder and decoder."""
    family = FAMILIES.get(str(config.values.get("model_type")))
    return family is not None and family.has_source
