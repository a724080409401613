"""The options of ``evenflow run``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from evenflow import ranges
from evenflow.asking import Metadata, asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.profiles.mesh_plan_file import parse_mesh_plan, parse_sizes
from evenflow.profiles.plan_file import (
    parse_adapter_rank,
    parse_frozen_layers,
    parse_host_link,
    parse_memory_limit,
    parse_plan,
)
from evenflow_torch.models.families.table import FAMILIES
from evenflow_torch.requests import number_format
from evenflow_torch.run.engine.order import check_keepers
from evenflow_torch.run.job.child import HEARTBEAT_SECONDS
from evenflow_torch.run.job.launch import MOST_RANK_TIMEOUT_SECONDS
from evenflow_torch.run.values.run_files import RunFiles, last_checkpoint
from evenflow_torch.run.values.run_job import LEAST_STEPS, RANK_TIMEOUT_SECONDS, TINY, Device, RunJob
from evenflow_torch.text.aa_text import parse_fault

_SEQUENCE, _MICROBATCH = 128, 1
"""Tokens of a sequence and sequences of a microbatch, where neither the options nor the plan say."""


def _trained(option: str, help_text: str) -> Metadata:
    return asked(ranges.TRAINED_SIZE, option=option, help=help_text)


def _instead(option: str, what: str, within: ranges.Range = ranges.MODEL_SIZE) -> Metadata:
    return asked(within, option=option, help=f"{what} to use instead of the model's.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What ``evenflow run`` is asked for: an option for each field but the plan file."""

    plan_file: str
    model: str = field(
        metadata=asked(
            option="--model",
            metavar="NAME|CONFIG.json",
            help="llama-tiny, or the configuration of a language model as transformers writes it.",
        )
    )
    data_parallel: int = optional(
        "--data-parallel",
        ranges.RANKS,
        default=1,
        shows_default=True,
        metavar="N",
        help="Replicas of the pipeline, each with microbatches of its own, which share parameters (FSDP); around a "
        "plan of evenflow auto they have copies.",
    )
    data: tuple[str, ...] = optional(
        "--data",
        default=(),
        is_multiple=True,
        metavar="FILE|MODULE:NAME",
        help="What to train on: token files (.npy, .bin), JSONL, or an iterable by its import path. May be given "
        "several times.  [default: sequences that count up]",
    )
    tokenizer: str | None = optional(
        "--tokenizer", metavar="FOLDER", help="The tokenizer for the texts of JSONL files, as transformers saves it."
    )
    eval_data: tuple[str, ...] = optional(
        "--eval-data", default=(), is_multiple=True, metavar="FILE|MODULE:NAME", help="What to evaluate on, as --data."
    )
    eval_every: int | None = optional("--eval-every", ranges.STEPS, metavar="N", help="Evaluate after every N steps.")
    save: Path | None = optional("--save", metavar="FOLDER", help="Write checkpoints into this folder, one at the end.")
    save_every: int | None = optional("--save-every", ranges.STEPS, metavar="N", help="Also after every N steps.")
    resume: Path | None = optional(
        "--resume", metavar="FOLDER", help="Go on from a checkpoint, or from the last one of a folder of --save."
    )
    restarts: int = optional(
        "--restarts",
        replace(ranges.STEPS, least=0),
        default=0,
        shows_default=True,
        metavar="N",
        help="Start the ranks again, up to N times, where one fails, from the last checkpoint of --save.",
    )
    elastic: bool = optional(
        "--elastic",
        default=False,
        help="Plan again where more or fewer processes or GPUs are there than PLAN.json has ranks, and go on from the "
        "last checkpoint of --save.",
    )
    metrics_file: Path | None = optional(
        "--metrics", metavar="FILE.jsonl", help="Write a line for each step: loss, tokens/s, MFU, memory."
    )
    tensorboard: Path | None = optional("--tensorboard", metavar="FOLDER", help="The same for TensorBoard.")
    steps: int = optional(
        "--steps",
        replace(ranges.STEPS, least=LEAST_STEPS),
        default=20,
        shows_default=True,
        help="Training steps; the first two are not in the measured times.",
    )
    seq: int | None = field(
        default=None, metadata=_trained("--seq", "Tokens of a sequence.  [default: 128, or the plan's]")
    )
    target_seq: int | None = field(
        default=None,
        metadata=_trained(
            "--target-seq",
            "Tokens of a target, of a model with encoder and decoder.  [default: as --seq, or the plan's]",
        ),
    )
    microbatch: int | None = optional(
        "--microbatch", ranges.SEQUENCES, help="Sequences of a microbatch.  [default: 1, or the plan's]"
    )
    layers: int | None = optional(
        "--layers",
        ranges.MODEL_LAYERS,
        help="Layers to use instead of the model's; llama-tiny has as many as the plan.",
    )
    hidden: int | None = field(default=None, metadata=_instead("--hidden", "Hidden size"))
    heads: int | None = field(default=None, metadata=_instead("--heads", "Attention heads"))
    vocab: int | None = field(default=None, metadata=_instead("--vocab", "Vocabulary size", within=ranges.TRAINED_SIZE))
    freeze: int | None = optional(
        "--freeze",
        replace(ranges.MODEL_LAYERS, least=0),
        metavar="N",
        help="First layers that are not trained, nor is the embedding.  [default: those of the plan]",
    )
    lora: int | None = optional(
        "--lora",
        replace(ranges.MODEL_SIZE, least=0),
        metavar="RANK",
        help="Width of adapters (LoRA) that are trained alone, beside every product of the layers; 0: all is trained.  "
        "[default: that of the plan]",
    )
    dtype: Dtype = field(default=Dtype.FLOAT32, metadata=number_format(Dtype.FLOAT32, Dtype.FLOAT64, Dtype.BFLOAT16))
    lr: float = optional("--lr", ranges.LEARNING_RATE, default=1e-3, shows_default=True, help="Learning rate of AdamW.")
    device: str | None = optional(
        "--device",
        choices=tuple(device.value for device in Device),
        help="Device that the ranks compute on.  [default: cuda where every rank has a GPU, else cpu]",
    )
    seed: int = optional(
        "--seed", ranges.SEED, default=0, shows_default=True, help="Seed of weights, data and dropout."
    )
    verify: bool = optional(
        "--verify", default=False, help="Also train the unsplit model, and compare losses and gradients of every step."
    )
    aa_check: bool = optional(
        "--aa-check",
        default=False,
        help="Do finished work again inside the bubbles and compare bit for bit, in every other step.",
    )
    aa_everywhere: bool = optional(
        "--aa-everywhere",
        default=False,
        help="Like --aa-check, and also check work that fits no bubble, which makes the step longer.",
    )
    inject_fault: tuple[str, ...] = optional(
        "--inject-fault",
        default=(),
        is_multiple=True,
        metavar="rank=R,step=S,…",
        help="Flip one bit of a rank's results, to see that --aa-check finds it; also microbatch=M, "
        "op=forward|backward, kind=product|message|update|stuck. May be given several times.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    svg_file: Path | None = field(
        default=None, metadata=asked_as(options.SVG_FILE, help="Draw the measured step under the predicted one.")
    )
    html_file: Path | None = field(default=None, metadata=options.HTML_FILE)
    timeline_file: Path | None = optional(
        "--timeline", is_written=True, help="Write start and end of every action, predicted and measured, as JSON."
    )
    trace_file: Path | None = field(default=None, metadata=options.TRACE_FILE)
    profile: Path | None = optional(
        "--profile",
        metavar="FOLDER",
        help="Run one more step under torch's profiler, and write a trace of every rank, for evenflow report.",
    )
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    rank_timeout: float = optional(
        "--rank-timeout",
        replace(ranges.SECONDS, is_above=False, least=2 * HEARTBEAT_SECONDS, most=MOST_RANK_TIMEOUT_SECONDS),
        default=RANK_TIMEOUT_SECONDS,
        shows_default=True,
        metavar="SECONDS",
        help="Give up when a rank shows no sign of life for this time, as when it was stopped.",
    )
    as_rank: bool = optional("--as-rank", default=False, is_hidden=True)

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
        files = self._files()
        mesh_plan = parse_mesh_plan(text, place=place)
        sequence, target, microbatch = (
            (_SEQUENCE, self.seq or _SEQUENCE, _MICROBATCH) if mesh_plan is None else parse_sizes(text, place=place)
        )
        host_link = parse_host_link(text, place=place)
        check_keepers(host_link)
        return RunJob(
            plan=parse_plan(text, place=place),
            memory_limit_bytes=parse_memory_limit(text, place=place),
            mesh_plan=mesh_plan,
            data_parallel=self.data_parallel,
            host_link=host_link,
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
            frozen_layers=parse_frozen_layers(text, place=place) if self.freeze is None else self.freeze,
            adapter_rank=parse_adapter_rank(text, place=place) if self.lora is None else self.lora,
            files=files,
        )

    def _new_folder(self, folder: Path) -> Path:
        """Return a folder for traces as an absolute path; raise InputError for one that has something else."""
        if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not self.overwrite):
            raise InputError(
                value=str(folder),
                rule=_("must be a new or empty folder"),
                place="--profile",
                remedy=_("give another folder, or --overwrite for traces of an earlier run"),
            )
        return folder.absolute()

    def _files(self) -> RunFiles:
        """Return where data come from and checkpoints lie."""
        needed = (
            ("--tokenizer", self.tokenizer, "--data", self.data or self.eval_data),
            ("--eval-every", self.eval_every, "--eval-data", self.eval_data),
            ("--eval-data", self.eval_data, "--eval-every", self.eval_every),
            ("--save-every", self.save_every, "--save", self.save),
            ("--restarts", self.restarts, "--save", self.save),
            ("--elastic", self.elastic, "--save", self.save),
        )
        for option, value, other, is_there in needed:
            if value and not is_there:
                raise InputError(
                    rule=_("must come with {other}", other=other), place=option, remedy=_("add {other}", other=other)
                )
        for option, goes_on in (("--restarts", self.restarts), ("--elastic", self.elastic)):
            if goes_on and (self.verify or self.aa_check or self.aa_everywhere):
                raise InputError(
                    rule=_("must not be given with --verify or --aa-check, which begin with the first step"),
                    place=option,
                    remedy=_("leave one of the two out"),
                )
        files = RunFiles(
            data=self.data,
            tokenizer=self.tokenizer,
            eval_data=self.eval_data,
            eval_every=self.eval_every,
            save=None if self.save is None else str(self.save.absolute()),
            save_every=self.save_every,
            profile=None if self.profile is None else str(self._new_folder(self.profile)),
            shows_metrics=bool(self.data or self.metrics_file or self.tensorboard),
        )
        if self.resume is None:
            return files
        last = last_checkpoint(self.resume.absolute(), most_steps=int(ranges.STEPS.most))
        if last is None:
            raise InputError(
                value=str(self.resume),
                rule=_("must be a folder that --save has written, with a finished checkpoint"),
                place="--resume",
            )
        return replace(files, first_step=last[0], resume=str(last[1]))


def _has_source(config: Fields) -> bool:
    """Return whether a configuration is that of a model with encoder and decoder."""
    family = FAMILIES.get(str(config.values.get("model_type")))
    return family is not None and family.has_source
