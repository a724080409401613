#!/usr/bin/env bash
# evenflow run trains on files, saves, evaluates, and goes on under a plan for another number of ranks.
#
# examples/training/on_data.sh FOLDER         (writes all of it there)
set -euo pipefail
folder=${1:?a folder to write into}
mkdir -p "$folder"
cd "$folder"

cat > config.json <<'JSON'
{"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "max_position_embeddings": 64}
JSON
python - <<'PYTHON'
import numpy as np

rng = np.random.default_rng(0)
for name, documents in (("train", 200), ("held_out", 40)):
    first = rng.integers(0, 64, (documents, 1))
    np.save(f"{name}.npy", ((first + np.arange(40)) % 64).astype(np.uint16).ravel())
PYTHON

planned=(config.json --accelerator a100 --microbatches 4 --seq 16 --time-limit 5)
evenflow plan "${planned[@]}" --ranks 2 --json two.json
evenflow plan "${planned[@]}" --ranks 1 --json one.json

training=(--model config.json --seq 16 --device cpu --lr 3e-3 --data train.npy --eval-data held_out.npy --eval-every 4)
evenflow run two.json "${training[@]}" --steps 8 --save checkpoints --save-every 4 --metrics metrics.jsonl
evenflow run one.json "${training[@]}" --steps 12 --resume checkpoints/step-00000008 --data-parallel 2 \
    --save checkpoints --metrics metrics.jsonl
