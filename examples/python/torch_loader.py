"""A PyTorch program with one added line: ``python3 -m dliotrace run torch_loader.py DIR``."""

import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset

import dliotrace.torch

dliotrace.torch.instrument()

SAMPLES, SIZE = 16, 64 << 10


class Files(Dataset):
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        with open(os.path.join(self.folder, f"{index}.bin"), "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).float()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: torch_loader.py DIR")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for index in range(SAMPLES):
        with open(os.path.join(folder, f"{index}.bin"), "wb") as file:
            file.write(os.urandom(SIZE))
    model = torch.nn.Linear(SIZE, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader = DataLoader(Files(folder), batch_size=4, num_workers=2)
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
    torch.save(model.state_dict(), os.path.join(folder, "model.pt"))
    torch.load(os.path.join(folder, "model.pt"))


if __name__ == "__main__":
    main()
