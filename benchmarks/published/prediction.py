"""evenflow's prediction for a published run: its configuration as a training, and what the source does not say."""

from dataclasses import replace

from benchmarks.published.predictor import Predicted
from benchmarks.published.run import PublishedRun
from evenflow.cluster.accelerators import accelerator_named
from evenflow.cluster.reached import Reached
from evenflow.cluster.topology import Topology
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import Experts, Transformer

_NAMES = {"a100-80": "a100"}


def training_of(run: PublishedRun) -> tuple[Training, Topology]:
    """Return a completed run as a training."""
    experts = None
    if run.experts:
        experts = Experts(
            count=run.experts, active=run.active_experts, ffn=run.expert_ffn, shared_ffn=run.shared_experts or 0
        )
    flags = run.overlap_flags or ""
    old = str(run.hardware).startswith(("v100", "a100")) and run.zero != "fsdp"
    model = Transformer(
        hidden=run.hidden,
        layers=run.layers,
        heads=run.heads,
        kv_heads=run.kv_heads,
        head_dim=run.head_dim,
        ffn=run.ffn or 0,
        vocabulary=run.vocab,
        gated=run.gated_mlp,
        tied=run.tied_embeddings,
        positions=0 if run.gated_mlp else run.seq,
        biases=not run.gated_mlp,
        experts=experts,
        predicted_tokens=run.mtp_layers or 0,
        dropout=old,
        name=run.model or "model",
    )
    sharding = {"distopt": "1", "fsdp": "3"}.get(run.zero, run.zero)
    degrees = Degrees(
        tensor=run.tp,
        pipeline=run.pp,
        chunks=run.vpp or 1,
        context=run.cp,
        data=run.dp,
        expert=run.ep,
        sequence_parallel=run.sequence_parallel,
        sharding=Sharding(sharding),
    )
    fsdp = run.zero == "fsdp"
    software = Software(
        fused_attention=not old,
        fused_elementwise=not fsdp or "compile" in flags,
        captured_graphs="GRAPH=True" in flags or "cuda_graph_impl='full" in flags or "cuda_graph_impl='local" in flags,
        overlaps_tensor="TP_COMM_OVERLAP=True" in flags or "tp_comm_overlap=True" in flags,
        overlaps_gradients=not old,
        overlaps_parameters=not old,
        overlaps_pipeline=not old,
        overlaps_experts="overlap_moe_expert_parallel_comm=True" in flags,
        gradient_bytes=4 if run.precision != "fp16" and not old else 2,
    )
    kind = {"full": "full", "selective": "select"}.get(run.recompute or "", "none")
    training = Training(
        model=model,
        degrees=degrees,
        microbatch=run.mbs,
        global_batch=run.gbs,
        sequence=run.seq,
        precision=run.precision or "bf16",
        recompute=kind,
        layout=_layout(run),
        software=software,
    )
    device = accelerator_named(_NAMES.get(run.hardware, run.hardware))
    domain = device.link_devices if device.link_devices > 8 else run.gpus_per_node or 8
    return training, Topology(accelerator=device, domain_devices=domain)


def _layout(run: PublishedRun) -> tuple[tuple[int, ...], ...]:
    stages = run.pp * run.vpp
    each, left = divmod(run.layers, stages)
    text = run.layout or ""
    if "embedding and loss" in text:
        total = run.layers + 2
        each = total // stages
        counts = [each] * stages
        counts[0] -= 1
        counts[-1] -= 1
        counts[1 % stages] += total - each * stages
    elif "last stage has 1" in text:
        counts = [each + (each * stages + left - 1 - each * (stages - 1) > 0)] * stages
        counts = [7] * (stages - 1) + [1]
        if sum(counts) != run.layers:
            return ()
    elif left and stages > 1:
        counts = [each + (stage < left) for stage in range(stages)]
    else:
        return ()
    return tuple(tuple(counts[chunk * run.pp : (chunk + 1) * run.pp]) for chunk in range(run.vpp))


def predicted(run: PublishedRun, reached: Reached | None = None) -> Predicted:
    """Return step and memory of a completed run."""
    training, topology = training_of(run)
    if reached is not None:
        topology = replace(topology, accelerator=replace(topology.accelerator, reached=reached))
    result = predict(training, topology)
    ranks = result.simulation.peak_memory_bytes
    memory = ranks[-1] if run.mem_rank == "last" else max(ranks)
    return Predicted(step_s=result.step_ns / 1e9, memory_gib=memory / 2**30)
