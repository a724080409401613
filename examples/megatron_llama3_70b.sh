#!/usr/bin/env bash
# Llama 3 70B on 32 devices, as many begin: equal stages, and every stage recomputes three layers so that the first one fits.
torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py \
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
    --group-query-attention --num-query-groups 8 --swiglu --untie-embeddings-and-output-weights \
    --seq-length 8192 --micro-batch-size 1 --global-batch-size 64 --bf16 \
    --tensor-model-parallel-size 4 --sequence-parallel \
    --pipeline-model-parallel-size 8 \
    --recompute-granularity full --recompute-method block --recompute-num-layers 3
