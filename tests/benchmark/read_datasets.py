"""Reads data sets that `dlio bench` generated, with the libraries people use, and checks every shape and byte rule.

usage: read_datasets.py FOLDER FILES SAMPLES SIDE [ELEMENT]

FOLDER contains one data directory per format, named <format> or <format>-<compression>. Exits with 42 on success.
"""

import io
import struct
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from PIL import Image

FOLDER, FILES, SAMPLES, SIDE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
ELEMENT = np.dtype(sys.argv[5] if len(sys.argv) > 5 else "uint8")


def crc32c(data, table=[]):
    if not table:
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """Yields the (number, value) pairs of a protocol buffer message: bytes for lengths, integers for varints."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        yield tag >> 3, value


def looks_random(array):
    values = np.unique(np.asarray(array).ravel())
    assert len(values) > min(array.size, 256) * 0.4, "the content repeats itself"


def npz(path):
    with np.load(path) as file:
        assert sorted(file.files) == ["x", "y"]
        assert file["x"].shape == (SIDE, SIDE, SAMPLES) and file["x"].dtype == ELEMENT
        assert file["y"].shape == (SAMPLES,) and file["y"].dtype == np.int64 and not file["y"].any()
        looks_random(file["x"])


def npy(path):
    array = np.load(path)
    assert array.shape == (SIDE, SIDE, SAMPLES) and array.dtype == ELEMENT
    looks_random(array)


def hdf5(path):
    with h5py.File(path) as file:
        assert sorted(file) == ["labels", "records_0"]
        assert file["records_0"].shape == (SAMPLES, SIDE, SIDE) and file["records_0"].dtype == ELEMENT
        assert file["labels"].shape == (SAMPLES,) and file["labels"].dtype == np.int64
        looks_random(file["records_0"][SAMPLES - 1])


def csv(path):
    frame = pd.read_csv(path, header=None)
    assert frame.shape == (SAMPLES, SIDE * SIDE)
    looks_random(frame.to_numpy())


def image(path):
    picture = Image.open(path)
    assert picture.mode == "L" and picture.size == (SIDE, SIDE)
    looks_random(np.asarray(picture))


def tfrecord(path):
    data = path.read_bytes()
    index = FOLDER / path.parts[len(FOLDER.parts)] / "index" / path.parent.name / (path.name + ".idx")
    places = [tuple(map(int, line.split())) for line in index.read_text().splitlines()]
    assert len(places) == SAMPLES
    at = 0
    for offset, size in places:
        assert offset == at
        length = data[at : at + 8]
        (count,) = struct.unpack("<Q", length)
        assert size == count + 16
        assert struct.unpack("<I", data[at + 8 : at + 12])[0] == masked(length)
        example = data[at + 12 : at + 12 + count]
        assert struct.unpack("<I", data[at + 12 + count : at + size])[0] == masked(example)
        features = dict(
            (dict(fields(entry))[1].decode(), dict(fields(entry))[2])
            for _, entry in fields(dict(fields(example))[1])
        )
        image = dict(fields(dict(fields(features["image"]))[1]))[1]
        number = dict(fields(features["size"]))[3]
        bytes_wanted = SIDE * SIDE * ELEMENT.itemsize
        assert len(image) == bytes_wanted
        packed = dict(fields(number))[1]
        assert [value for _, value in fields(b"\x08" + packed)] == [bytes_wanted]
        at += size
    assert at == len(data)


def indexed(path):
    size = SIDE * SIDE * ELEMENT.itemsize
    offsets = np.fromfile(f"{path}.off.idx", dtype="<u8")
    sizes = np.fromfile(f"{path}.sz.idx", dtype="<u8")
    assert offsets.tolist() == [sample * size for sample in range(SAMPLES)]
    assert sizes.tolist() == [size] * SAMPLES
    assert path.stat().st_size == size * SAMPLES
    looks_random(np.memmap(path, dtype=ELEMENT, mode="r"))


def parquet(path):
    frame = pd.read_parquet(path)
    assert list(frame.columns) == ["image"] and len(frame) == SAMPLES
    assert all(len(value) == SIDE * SIDE * ELEMENT.itemsize for value in frame["image"])


READERS = {
    "npz": npz, "npy": npy, "hdf5": hdf5, "csv": csv, "jpeg": image, "png": image, "tfrecord": tfrecord,
    "indexed_binary": indexed, "mmap_indexed_binary": indexed, "parquet": parquet,
}  # fmt: skip
ENDINGS = {"csv-gzip": ".gz", "csv-bz2": ".bz2", "csv-zip": ".zip", "csv-xz": ".xz"}

seen = 0
for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
    form = folder.name.split("-")[0]
    width = len(str(FILES))
    ending = ENDINGS.get(folder.name, "")
    wanted = [f"img_{number:0{width}}_of_{FILES}.{form}{ending}" for number in range(FILES)]
    found = sorted(path.name for path in (folder / "train").iterdir() if not path.name.endswith(".idx"))
    assert found == wanted, (folder, found)
    for name in wanted:
        try:
            READERS[form](folder / "train" / name)
        except BaseException:
            print(f"{folder / 'train' / name}:", file=sys.stderr)
            raise
    seen += 1
print(f"{seen} data sets are right")
sys.exit(42 if seen else 1)
