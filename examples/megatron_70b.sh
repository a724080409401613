#!/bin/bash
# our usual run
export CUDA_DEVICE_MAX_CONNECTIONS=1
torchrun --nproc_per_node 8 pretrain_gpt.py \
    --num-layers 80 \
    --hidden-size 8192 \
    --pipeline-model-parallel-size 8 \
    --num-layers-per-virtual-pipeline-stage 5 \
    --micro-batch-size 1 \
    --global-batch-size 32 \
    --recompute-granularity full \
    --recompute-method block \
    --recompute-num-layers 1 \
    --bf16
