"""Models and questions for the rules of frameworks."""

from dataclasses import replace

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Experts, Transformer
from evenflow.targets.registry import target_named
from evenflow.tune.axes import Axis
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rules import DegreeRules

DENSE = Transformer(
    hidden=2048, layers=8, heads=16, kv_heads=4, head_dim=128, ffn=5632, vocabulary=32000, gated=True, tied=False
)
MIXTURE = replace(DENSE, experts=Experts(count=8, active=2, ffn=1408, shared_ffn=0))


def training(model: Transformer = DENSE, *, sequence: int = 4096, precision: str = "bf16", **degrees) -> Training:
    """One microbatch of one sequence for every copy, eight in a step."""
    split = Degrees(**degrees)
    return Training(
        model=model,
        degrees=split,
        microbatch=1,
        global_batch=8 * split.data,
        sequence=sequence,
        precision=precision,
        layout=((model.layers // split.pipeline,) * split.pipeline,),
    )


def broken(rules: DegreeRules, one: Training) -> list[str]:
    """The axes whose rules a training breaks."""
    return [str(refusal.place) for refusal in rules.refusals(one, title="It")]


def asked(target: str, model: Transformer, *, version: str | None = None, devices: int = 16, **kept) -> TuningQuestion:
    """What the degrees of a model on some devices are to be for a framework."""
    framework = target_named(target)
    chosen = framework.version(version)
    return TuningQuestion(
        model=model,
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=8),
        devices=devices,
        global_batch=64,
        sequence=4096,
        memory_limit_bytes=80 * 2**30,
        rules=framework.degree_rules(chosen),
        abilities=framework.abilities(chosen),
        title=framework.title,
        fixed={Axis.MICROBATCH: 1} | kept,
    )
