"""Trains with Hugging Face's Trainer, and logs the report to the tracker in the first argument at the end."""

import sys
from pathlib import Path

import dliotrace
import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(100, 1)

    def forward(self, values):
        return {"loss": self.layer(values).mean()}


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"values": torch.rand(100)}


def main(tracker):
    if tracker == "mlflow":
        import mlflow

        mlflow.set_tracking_uri(Path("runs").absolute().as_uri())
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=8, num_train_epochs=2, dataloader_num_workers=2, use_cpu=True, report_to=tracker,
        disable_tqdm=True, save_strategy="no", remove_unused_columns=False,
    )
    Trainer(Model(), arguments, train_dataset=Samples(), callbacks=[dliotrace.hugging_face.LogReport()]).train()


if __name__ == "__main__":
    main(sys.argv[1])
