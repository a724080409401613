"""An accelerator of your own, by name: what its data sheet says, in operations and bytes per second."""

from evenflow.cluster import Accelerator

LAB_9 = Accelerator(
    name="lab-9",
    flops_per_s=60e12,
    flops_per_s_of={"bfloat16": 480e12, "float16": 480e12, "float32": 60e12},
    memory_bytes_per_s=2.4e12,
    memory_bytes=64 * 2**30,
    link_bytes_per_s=300e9,
    network_bytes_per_s=25e9,
    source="an example of evenflow",
)
