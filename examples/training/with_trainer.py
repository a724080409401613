"""The Trainer of transformers around a pipeline: its data, schedule, logs, evaluation and checkpoints.

evenflow plan config.json --accelerator h100 --ranks 2 --microbatches 4 --seq 16 --json plan.json
torchrun --nproc-per-node 2 examples/training/with_trainer.py plan.json config.json STEPS [resume]

More processes than ranks are replicas. Needs accelerate, as every Trainer does.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.data_loader import prepare_data_loader
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

import evenflow


class Planned(nn.Module):
    """What Trainer takes for its model: the parameters of this rank."""

    def __init__(self, pipe: Any, config: Any) -> None:
        super().__init__()
        self.pipe, self.config = pipe, config

    def named_parameters(self, *_args: Any, **_options: Any) -> Any:
        return self.pipe.named_parameters()

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        raise NotImplementedError("PipelineTrainer runs the pipeline")


class PipelineTrainer(Trainer):
    """Trainer whose steps are those of a pipeline. A batch is cut into the plan's microbatches, so
    `gradient_accumulation_steps` is 1; `optimizers` has an optimizer of the pipeline's parameters.
    """

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        self.accelerator.prepare_model = lambda model, **_options: model  # replicas are the pipeline's own

    def _loader(self, data: Any, *, shuffle: bool, size: int) -> DataLoader:
        """Batches that are the same on all ranks of a pipeline; each replica has others."""
        replicas = self.model.pipe.replicas
        loader = DataLoader(data, batch_size=size, shuffle=shuffle, drop_last=True, collate_fn=self.data_collator)
        return prepare_data_loader(
            loader, self.args.device, num_processes=replicas.count, process_index=replicas.index, put_on_device=False,
            use_seedable_sampler=True, data_seed=self.args.seed,
        )  # fmt: skip

    def get_train_dataloader(self) -> DataLoader:
        return self._loader(self.train_dataset, shuffle=True, size=self.args.per_device_train_batch_size)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader:
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        return self._loader(data, shuffle=False, size=self.args.per_device_eval_batch_size)

    def _everywhere(self, loss: Tensor | None) -> Tensor:
        """The loss, which the rank of the last stage has, on all ranks."""
        pipe = self.model.pipe
        known = torch.zeros((), device=self.args.device) if loss is None else loss.detach().float()
        dist.all_reduce(known, group=pipe.replicas.pipeline)
        return known

    def training_step(self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch: Any = None) -> Tensor:
        return self._everywhere(self.model.pipe.step(dict(inputs)))

    def prediction_step(self, model: nn.Module, inputs: dict[str, Tensor], *_args: Any, **_options: Any) -> Any:
        return self._everywhere(self.model.pipe.evaluate(dict(inputs))), None, None

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        return self.model.pipe.clip_grad_norm_(self.args.max_grad_norm)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        self.model.pipe.save_pretrained(output_dir or self.args.output_dir)
        if self.args.should_save:
            self.model.config.save_pretrained(output_dir or self.args.output_dir)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        self.model.pipe.save(Path(output_dir) / "pipeline", self.optimizer.optimizer)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_from_checkpoint(self, *_args: Any, **_options: Any) -> None:
        """Nothing: the model is read with the optimizer."""

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.model.pipe.load(Path(checkpoint) / "pipeline", self.optimizer.optimizer)
            self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint) / "scheduler.pt"))


class Counting(Dataset):
    """Sequences that count up."""

    def __init__(self, number: int, vocabulary: int) -> None:
        random = torch.Generator().manual_seed(number)
        self.tokens = (torch.randint(vocabulary, (number, 1), generator=random) + torch.arange(16)) % vocabulary

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        return {"input_ids": self.tokens[place], "labels": self.tokens[place]}


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[1])
    config = LlamaConfig(**json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")), use_cache=False)
    dist.init_process_group("gloo")
    replicas = dist.get_world_size() // plan.num_ranks
    mesh = init_device_mesh("cpu", (plan.num_ranks, replicas), mesh_dim_names=("pp", "dp"))
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    model = AutoModelForCausalLM.from_config(config)
    data, size = Counting(64, config.vocab_size), 8 // replicas
    example = {name: torch.stack([data[place][name] for place in range(size)]) for name in data[0]}
    pipe = evenflow.run.pipeline(plan, model, None, example, mesh=mesh, seed=0)
    trainer = PipelineTrainer(
        model=Planned(pipe, config),
        args=TrainingArguments(
            "trained", max_steps=int(sys.argv[3]), per_device_train_batch_size=size, per_device_eval_batch_size=size,
            logging_steps=1, save_steps=5, eval_strategy="steps", eval_steps=5, lr_scheduler_type="constant",
            remove_unused_columns=False, label_names=["labels"], report_to="none", use_cpu=True, disable_tqdm=True,
        ),
        train_dataset=data,
        eval_dataset=Counting(16, config.vocab_size),
        optimizers=(torch.optim.AdamW(pipe.parameters(), lr=1e-2), None),
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=len(sys.argv) > 4)
    if dist.get_rank() == 0:
        for line in trainer.state.log_history:
            print(json.dumps(line), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
