"""Valid files of every kind, small enough that a command answers at once."""

import gzip
import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

LAYERS: dict[str, Any] = {
    "name": "small",
    "stage_const_mem": 3,
    "pre_defined_layer": {"Embedding": 0, "Norm": -1},
    "auto_partition_layer": {"Layer": 6},
    "layers_description": [
        {"name": "Embedding", "type": "HEAD", "nb_layer": 1, "time": 0.5, "memory_parameter": 40, "model_name": "x"},
        {
            "name": "Layer", "type": "BODY", "nb_layer": 4, "time": 1.0, "backward_coef": 0.1, "weight_time": 0.7,
            "memory_parameter": 100, "memory_activation": 10, "memory_recompute": 1, "recompute_coef": 0.5,
            "memory_select_rec": 6, "memory_select_comm": 7, "memory_both_comm_select": 5, "memory_until_weight": 8,
            "recompute_kinds": {"mine": {"memory": 3, "time": 3.5}},
        },
        {
            "name": "Other", "type": "BODY", "nb_layer": 2, "forward_time": 1.5, "backward_time": 3.0,
            "recompute_time": 4.0, "memory_parameter": 90, "memory_activation": 12, "memory_recompute": 2,
        },
        {"name": "Norm", "type": "TAIL", "nb_layer": 1, "time": 0.25, "memory_parameter": 60, "memory_activation": 1},
    ],
}  # fmt: skip
PLAN: dict[str, Any] = {
    "schedule": "interleaved", "ranks": 2, "chunks": 2, "microbatches": 4, "sequence_splits": 1,
    "layers": [[2, 1], [1, 2]], "recompute": {"full": [[1, 0], [0, 0]], "select": [[0, 1], [0, 0]]},
}  # fmt: skip
WHOLE_PLAN: dict[str, Any] = {
    **PLAN, "recompute": {"full": [[1, 0], [0, 0]]}, "memory_limit_mb": 900.0, "network": LAYERS, "communication": {"latency_ms": 0.01, "transfer_ms": 0.5},
}  # fmt: skip
SETTINGS = """\
[model]
name = "llama3"  # [parallelism]

[training]
local_batch_size = 4

[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
module_fqns_per_model_part = [
    ["tok_embeddings", "layers.0", "layers.1", "layers.2"],  # first
    ["layers.3", "layers.4", "layers.5", "norm", "output"],
]

[activation_checkpoint]
mode = "none"
"""
TIMELINE: dict[str, Any] = {
    "schedule": "1f1b", "sequence_splits": 1, "memory_limit_mb": 900.0, "peak_memory_mb": {"predicted": [1.0, 2.0], "measured": [1.5, 2.0]},
    "predicted_step_ms": 5.0, "measured_step_ms": 6.0,
    "predicted": [[["0F0", 0.0, 1.0], ["0B0", 3.0, 5.0]], [["1F0", 1.0, 2.0], ["1B0", 2.0, 3.0]]],
    "measured": [[["0F0", 0.0, 1.0], ["0B0", 3.5, 6.0]], [["1F0", 1.0, 2.0], ["1B0", 2.0, 3.0]]],
}  # fmt: skip
ORDERED_PLAN: dict[str, Any] = {
    **PLAN, "schedule": "search", "chunks": 1, "microbatches": 2, "layers": [[3, 3]], "recompute": {},
    "order": ["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"],
}  # fmt: skip
_STAGE: dict[str, Any] = {
    "rank": 0, "devices": [0, 1], "mesh": [2],
    "input": {"shape": [4, 8], "item_bytes": 8, "placement": "S(0)"},
    "output": {"shape": [4, 8, 16], "item_bytes": 2, "placement": "R"},
    "parameters": {"model.embed_tokens.weight": "S(1)"}, "updates": {"model.embed_tokens.weight": "S(0)"},
    "gradients": {"model.embed_tokens.weight": "S(0)"},
    "gathered": {"model.embed_tokens.weight": "R"},
    "entries": {"model.embed_tokens": "R"}, "products": {"model.layers.0.mlp.down_proj": {"reads": "S(1)", "gives": "P"}},
}  # fmt: skip
MESH_PLAN: dict[str, Any] = {
    **PLAN, "schedule": "1f1b", "chunks": 1, "layers": [[3, 3]], "recompute": {}, "sequence": 8, "microbatch": 4,
    "cluster": {
        "name": "three", "mesh": [1, 3], "memory_mb": 1024.0, "intra_bytes_per_s": 10**9, "inter_bytes_per_s": 10**9,
        "intra_latency_ns": 0, "inter_latency_ns": 5,
    },
    "stages": [
        _STAGE,
        {
            **_STAGE, "rank": 1, "devices": [2], "mesh": [1], "output": None, "parameters": {"lm_head.weight": "R"},
            "input": {"shape": [4, 8, 16], "item_bytes": 2, "placement": "R"}, "updates": {}, "entries": {}, "products": {},
            "gradients": {},
            "gathered": {},
        },
    ],
}  # fmt: skip
JOBS: list[Any] = [
    [{"type": f"{kind}", "micro_batch_id": index} for index in range(2) for kind in ("forward", "backward")] + [{"type": "optimizer"}],
    [{"type": f"{kind}", "micro_batch_id": index} for index in range(2) for kind in ("forward", "backward")],
]  # fmt: skip
ORDER = "0UNSHARD,0F0,0SEND_F0,,0F1,0RECV_B0,0B0,0B1\n1F0,1B0,(1F1;1B1)OVERLAP_F_B\n"
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu", "vocab_size": 64,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": False,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "torch_dtype": "bfloat16", "head_dim": 8,
    "initializer_range": 0.02, "pad_token_id": 0,
}  # fmt: skip
EXPERTS_CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 64, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "q_lora_rank": 24,
    "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False, "max_position_embeddings": 64,
}  # fmt: skip
ACCELERATOR: dict[str, Any] = {
    "name": "ours", "source": "measured", "flops": {"fp32": "50TFLOPS", "bf16": "400TFLOPS", "fp8": "800TFLOPS"},
    "memory": "80GB", "memory_bandwidth": "3350GBps", "link": {"bandwidth": "450GBps", "devices": 8},
    "network": {"bandwidth": "400Gbps"}, "reached": {"product_share": 0.71, "standard_errors": {"product_share": 0.01}},
    "calibration": {"runs": 12, "files": ["a.csv"], "step_error": 0.03},
}  # fmt: skip
INIT: dict[str, Any] = {
    "pipeline_config": {"pipeline_num": 4, "num_layer": 80, "offset": [[0, 1, -1, 0], [0, -1, 1, 0]]},
    "time_config": {"head": 1, "body": 9, "tail": 6},
    "recompute_config": {
        "recompute": [[1, 2, 1, 1], [1, 3, 4, 1]], "select_recompute": [False, False], "select_comm_recompute": False,
    },
    "memory_usage": {
        "head_memory": 66502, "tail_memory": 25599,
        "body_memories": {"stage_id": [[1, 2], [1, 2]], "memories": [[52536, 35595], [45439, 35700]]},
    },
}  # fmt: skip
INIT_PROFILED: dict[str, Any] = {
    **{key: value for key, value in INIT.items() if key != "time_config"},
    "profiling_config": {"micro_batch_num": 2, "folder_path": "traces", "head_layers": "E", "body_layers": ["L"], "tail_layers": ["T"]},
}  # fmt: skip
MANUAL: dict[str, Any] = {
    "manual1": {
        "offset": [[1, -1], [1, 1]], "recompute": False, "select_recompute": [[1, 0], [0, 1]],
        "select_comm_recompute": [[1, 0], [0, 0]], "interleave_num": 2, "show": True, "file_name": "manual1.svg",
    },
    "flat": {"offset": 0, "recompute": [1, 2], "select_recompute": True},
}  # fmt: skip
ACCELERATOR: dict[str, Any] = {
    "name": "ours", "base": "h100", "source": "measured here", "flops": {"bf16": "800TFLOPS", "fp8": "1.6PFLOPS"},
    "memory": "80GB", "memory_bandwidth": "3350GBps", "link": {"bandwidth": "450GBps", "devices": 8},
    "network": {"bandwidth": "400Gbps", "cards_per_node": 8, "devices_per_node": 8},
    "reached": {"product_share": 0.71, "step_ns": 3e6, "standard_errors": {"product_share": 0.01}},
    "calibration": {
        "runs": 12, "files": ["runs.csv"], "step_error": 0.03, "before": {"product_share": 0.65},
        "covered": [
            {
                "runs": 12, "precision": "bf16", "experts": False, "software": ["fused-attention"], "hidden": [1024, 4096],
                "sequence": [2048, 2048], "devices": [8, 64], "devices_per_node": [8, 8], "tensor": [1, 8],
                "pipeline": [1, 4], "context": [1, 1], "expert": [1, 1],
            }
        ],
    },
}  # fmt: skip
CLUSTER: dict[str, Any] = {
    "name": "two", "mesh": "2x2", "memory": "1GB", "intra_bandwidth": "200GBps", "inter_bandwidth": "25GBps",
    "intra_latency": "5us", "inter_latency": "20us", "peak": "312TFLOPS",
}  # fmt: skip
OWN_PLAN: dict[str, Any] = {
    "tensor": 2, "pipeline": 2, "zero": 1, "recompute": "full", "layers": [3, 3], "placements": {"lm_head.weight": "column"},
    "microbatches": 2, "microbatch": 4, "sequence": 64, "schedule": "1f1b",
}  # fmt: skip
TRAINING: dict[str, Any] = {
    "seed": 0,
    "model": {"model_config": {"num_layers": 6, "offset": [0, 0], "type": "LlamaConfig"}, "arch": {"type": "Llama"}},
    "parallel": {"pipeline_stage": 2, "pipeline_config": {"pipeline_interleave": False}},
    "parallel_config": {"pipeline_stage": 2, "micro_batch_num": 4},
    "recompute_config": {"recompute": True, "select_recompute": ["feed_forward.mul"], "select_comm_recompute": {"a": [1, 0]}},
    "swap_config": {"swap": False},
}  # fmt: skip
PYNATIVE: dict[str, Any] = {
    "model": {"num_hidden_layers": 6, "model_type": "qwen3"},
    "parallelism": {"pipeline_parallel": 2, "pipeline_parallel_layers_per_stage": ["0-3", "4-5"], "tensor_parallel": 1},
    "recompute": {"mode": "full", "full_recompute_layer": ["0-1", "4"], "select_module": {"mlp": ["5"]}},
    "swap": {"enable": False},
}
MEASURED = (
    "id,hardware,model,hidden,layers,heads,vocab,seq,gpus,gated_mlp,precision,tp,pp,vpp,mbs,gbs,zero,recompute,step_s,mem_gib\n"
    "a,h100,one,1024,8,16,32000,1024,8,1,bf16,2,2,2,1,16,distopt,none,0.15,9.5\n"
    "b,h100,two,2048,8,16,32000,1024,16,0,fp8,8,1,1,1,16,2,full,0.25,\n"
    "c,,three,2048,8,16,32000,1024,,,,1,4,1,2,32,,selective,,20\n"
)
LOG = "".join(
    f"log/stage{i}_{i * 8}/m.log:54:Actual peak memory usage (with fragments): {90 + i}43M\n" for i in range(3)
)
TRAINING_LOG = "\n".join(
    [
        "------------------------ arguments ------------------------",
        *(
            f"  {name} {'.' * (48 - len(name))} {value}"
            for name, value in {
                "bf16": True, "context_parallel_size": 1, "data_parallel_size": 2, "ffn_hidden_size": 2048,
                "global_batch_size": 8, "group_query_attention": False, "hidden_size": 512, "kv_channels": 64,
                "micro_batch_size": 1, "num_attention_heads": 8, "num_experts": None, "num_layers": 4,
                "pipeline_model_parallel_layout": None, "pipeline_model_parallel_size": 2,
                "recompute_granularity": None, "seq_length": 512, "sequence_parallel": True, "swiglu": True,
                "tensor_model_parallel_size": 2, "untie_embeddings_and_output_weights": True,
                "use_distributed_optimizer": True, "virtual_pipeline_model_parallel_size": None, "world_size": 8,
            }.items()
        ),
        " > padded vocab (size: 1000) with 24 dummy tokens (new size: 1024)",
        *(
            f"[Rank {rank}] (after 1 iterations) memory (MB) | allocated: 90.5 | max allocated: 120.5 | reserved: 140.0 "
            "| max reserved: 150.0"
            for rank in (0, 4)
        ),
        *(
            f" [2025-03-31 05:54:07] iteration {number:8d}/{20:8d} | consumed samples: {8 * number:12d} | elapsed time per "
            f"iteration (ms): {100.0 + number:.1f} | throughput per GPU (TFLOP/s/GPU): 4.0 | global batch size:     8 |"
            for number in range(1, 9)
        ),
    ]
)  # fmt: skip
"""What the ranks of a small training of Megatron-LM write."""
MEGATRON = "".join(
    f"[Rank {i}] (after 2 iterations) memory (MB) | allocated: 3.0 | max allocated: {i}5.5 | reserved: 6.0 | max reserved: {i}6.5\n"
    for i in range(4)
)


def kineto() -> dict[str, Any]:
    """Two steps of two microbatches on the CPU: modules, operators and links."""
    events: list[Any] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    time = 100.0
    for step in range(2):
        begin = time
        for number in range(4):
            for name in ("nn.Module: E_0", "nn.Module: L_0", "nn.Module: L_1", "nn.Module: T_0"):
                common = {"ph": "X", "pid": 1, "tid": 1}
                events.append({**common, "cat": "python_function", "name": name, "ts": time, "dur": 10})
                events.append(
                    {**common, "cat": "cpu_op", "name": "aten::mm", "ts": time + 1, "dur": 5.5, "args": {"x": 1}}
                )
                events.append(
                    {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": time + 1, "cat": "fwdbwd", "name": "fwdbwd"}
                )
                events.append(
                    {
                        "ph": "f",
                        "id": number,
                        "pid": 1,
                        "tid": 2,
                        "ts": str(time + 8),
                        "cat": "fwdbwd",
                        "name": "fwdbwd",
                    }
                )
                node = "autograd::engine::evaluate_function: MmBackward0"
                events.append({**common, "tid": 2, "cat": "cpu_op", "name": node, "ts": time + 7, "dur": 2})
                time += 12
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 1,
                "tid": 1,
                "ts": begin,
                "dur": time - begin,
            }
        )
    return {"schemaVersion": 1, "traceEvents": events, "traceName": "x"}


def kineto_cuda() -> dict[str, Any]:
    """The same with kernels of a device."""
    trace = kineto()
    events = trace["traceEvents"]
    for number, event in enumerate([event for event in events if event["name"] == "aten::mm"]):
        args = {"correlation": number}
        common = {"ph": "X", "dur": 2}
        events.append(
            {
                **common,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": 1,
                "tid": 1,
                "ts": event["ts"] + 1,
                "args": args,
            }
        )
        events.append(
            {**common, "cat": "kernel", "name": "ncclKernel", "pid": 0, "tid": 7, "ts": event["ts"] + 3, "args": args}
        )
    return trace


STEP: dict[str, Any] = {
    "ranks": 2, "chunks": 1, "microbatches": 2,
    "order": {str(rank): {kind: [[0, 0], [1, 0]] for kind in ("forward", "backward")} for rank in range(2)},
    "steps": [
        {"step": 3, "rank": 0, "memory_gb": 4.5, "forward_ms": [[0.0, 1.0], [1.0, 2.0]], "backward_ms": [[4.0, 6.0], [7.0, 9.0]]},
        {"step": 3, "rank": 1, "memory_gb": 4, "forward_ms": [[1.0, 2.0], [4.0, 5.0]], "backward_ms": [[2.0, 4.0], [5.0, 7.0]]},
    ],
}  # fmt: skip
PRIMUS_CONFIG: dict[str, Any] = {"world_size": 2, "pp_size": 2, "vp_size": 1, "num_mbs": 2, "train_iters": 2}


def primus(rank: int) -> dict[str, Any]:
    """Two iterations of a rank as Primus dumps them."""
    times = {
        f"{prefix}_{side}": [span[place] for span in STEP["steps"][rank][f"{kind}_ms"]]
        for prefix, kind in (("fwd", "forward"), ("bwd", "backward"))
        for place, side in enumerate(("start", "end"))
    }
    names = {
        f"{prefix}_{what}": values
        for prefix in ("fwd", "bwd")
        for what, values in (("minibatch", [0, 1]), ("chunk", [0, 0]))
    }
    empty: dict[str, list[int]] = {f"wgrad_{what}": [] for what in ("start", "end", "minibatch", "chunk")}
    return {str(number): {"total": 9.5, "memory": 4.0, **times, **names, **empty} for number in (1, 2)}


def actions() -> dict[str, Any]:
    """A Kineto trace of one rank, whose ranges name the actions of two steps."""
    events: list[dict[str, Any]] = []
    for number in range(8):
        time = 100.5 + 20 * number
        name = f"PP:0{'FB'[number % 2]}{number // 2 % 2}"
        where = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**where, "cat": "user_annotation", "name": name, "ts": time, "dur": 10})
        events.append(
            {
                **where,
                "cat": "cuda_runtime",
                "name": "launch",
                "ts": time + 1,
                "dur": 1,
                "args": {"correlation": number},
            }
        )
        events.append(
            {**where, "cat": "kernel", "name": "gemm", "ts": time + 5, "dur": 12.25, "args": {"correlation": number}}
        )
    return {"schemaVersion": 1, "traceEvents": events}


def ascend(example: Path) -> list[Any]:
    """The beginning of a timeline of the examples, and its rows of layers."""
    events: list[Any] = json.loads(example.read_text())
    return events[:60] + [event for event in events if "Decode" in str(event.get("name"))][:60]


def nsight(path: Path, tables: dict[str, Any]) -> None:
    """Write a report; `tables` has rows by table, with the names of columns first."""
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for name, (columns, *rows) in tables.items():
        database.execute(f'CREATE TABLE "{name}" ({", ".join(chr(34) + column + chr(34) for column in columns)})')
        for row in rows:
            database.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', row)
    database.commit()
    database.close()


def nsight_tables() -> dict[str, Any]:
    """Two steps of two microbatches."""
    thread = (300 << 24) + 1
    ranges: list[Any] = [["start", "end", "eventType", "text", "globalTid", "textId"]]
    calls: list[Any] = [["start", "end", "globalTid", "correlationId", "nameId"]]
    kernels: list[Any] = [["start", "end", "correlationId", "globalPid", "shortName"]]
    time = 1000
    for step in range(2):
        begin = time
        for _ in range(2):
            for name in ("E", "0-L", "1-L", "T"):
                ranges.append([time, time + 100, 59, name, thread, None])
                ranges.append([time + 5, time + 50, 59, "aten::mm, seq = 3, op_id = 3", thread, None])
                calls.append([time + 10, time + 12, thread, time, 1])
                kernels.append([time + 20, time + 60, time, 300 << 24, 1])
                time += 120
        ranges.append([begin, time, 59, f"iteration {step}", thread, None])
    return {
        "StringIds": [["id", "value"], [1, "ncclKernel"], [2, "x"]],
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
    }


def compressed(data: bytes) -> bytes:
    """Return a gzip file."""
    return gzip.compress(data, compresslevel=1)


SCRIPT = """\
#!/bin/bash
# what we run
export CUDA_DEVICE_MAX_CONNECTIONS=1
LAYOUT="Ett|t|t|ttL"
GPT_ARGS=(
    --num-layers 6
    --hidden-size 64
)
torchrun --nproc_per_node 2 pretrain_gpt.py ${GPT_ARGS[@]} \\
    --pipeline-model-parallel-size 2 \\
    --pipeline-model-parallel-layout "$LAYOUT" \\
    --micro-batch-size 1 --global-batch-size 4 \\
    --recompute-granularity full --recompute-method block --recompute-num-layers 1 \\
    --bf16
"""


@cache
def certificate() -> Any:
    from msgspec import to_builtins

    from tests.verify.certified import certificate as certified

    return to_builtins(certified(2))


@cache
def report() -> str:
    """The parts of a report that are read back: its head, the numbers of its actions, and two plans."""
    from evenflow.report import report_html
    from evenflow.report.of_files import shown_of_text, with_own_names

    text = json.dumps(WHOLE_PLAN, indent=1)
    shown = [each for _ in range(2) for each in shown_of_text(text, place="seed", name="plan")]
    return report_html(with_own_names(shown), title="seed").partition("<main")[0] + "</body></html>\n"
