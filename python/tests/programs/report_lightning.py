"""Trains with Lightning, and logs the report to TensorBoard, W&B and CSV files at the end."""

import dliotrace
import lightning
import torch
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(100, 1)

    def training_step(self, batch, number):
        return self.layer(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    loader = DataLoader(TensorDataset(torch.rand(64, 100)), batch_size=8, num_workers=2, persistent_workers=True)
    loggers = [TensorBoardLogger("tensorboard"), WandbLogger(save_dir=".", offline=True), CSVLogger("csv")]
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=loggers, callbacks=[dliotrace.lightning.LogReport()],
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Model(), loader)


if __name__ == "__main__":
    main()
