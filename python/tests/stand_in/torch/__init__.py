"""As much of PyTorch as the hooks and the example touch, with its names and its way of starting workers."""

import pickle
import types

from torch import optim

uint8 = "uint8"


class Tensor(bytearray):
    def float(self):
        return self

    def mean(self):
        return self

    def backward(self):
        return None


def frombuffer(data, dtype):
    return Tensor(data)


def save(value, path):
    with open(path, "wb") as file:
        pickle.dump(value, file)


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


class _Linear:
    def __init__(self, inputs, outputs):
        self.size = inputs * outputs

    def parameters(self):
        return [self.size]

    def state_dict(self):
        return {"weight": bytes(self.size)}

    def __call__(self, batch):
        return batch[0]


nn = types.SimpleNamespace(Linear=_Linear)
