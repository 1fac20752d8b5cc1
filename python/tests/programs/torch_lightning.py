"""Lightning's Trainer: ``torch_lightning.py [plain]``. Its optimizers get a closure that computes."""

import json
import sys
import warnings

warnings.filterwarnings("ignore")

import lightning
import torch
from torch.utils.data import DataLoader

import dliotrace.torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers, self.losses = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)), []

    def training_step(self, batch, index):
        loss = self.layers(batch).mean()
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.layers(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


if __name__ == "__main__":
    if "plain" not in sys.argv:
        dliotrace.torch.instrument()
    lightning.seed_everything(0, verbose=False)
    model, data = Model(), torch.arange(64.0).reshape(16, 4) / 64
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=".",
    )
    trainer.fit(model, DataLoader(data, batch_size=4), DataLoader(data, batch_size=8))
    print(json.dumps([model.losses, torch.get_rng_state().sum().item()]))
