"""The Trainer of transformers on a very small model: ``torch_trainer.py [plain]``."""

import json
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import dliotrace.torch

STEPS = 6


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return {"input_ids": torch.arange(index, index + 8) % 30, "labels": index % 2}


if __name__ == "__main__":
    # Too late for modules that were imported, early enough for the first pass.
    if "plain" not in sys.argv:
        dliotrace.torch.instrument()
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForSequenceClassification(BertConfig(vocab_size=30, **shape))
    arguments = TrainingArguments(
        output_dir="out", max_steps=STEPS, per_device_train_batch_size=4, save_steps=STEPS, logging_steps=1, report_to=[],
        use_cpu=True, disable_tqdm=True, dataloader_num_workers=1, seed=3,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences())
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(json.dumps([losses, torch.get_rng_state().sum().item()]))
