"""A script imports modules and reads a file: its trace contains the data and no files of the interpreter."""
#= on data.bin: open=2 fstat=3 lseek=3 read=2 write=1 close=2
#= bytes: write=>=1000
#= on .pyc:
#= on .so:
#= on /__init__.py:
import sys
import json, csv, decimal, argparse, subprocess  # noqa: E401 F401

with open("data.bin", "wb") as file:
    file.write(bytes(1000))
with open("data.bin", "rb") as file:
    data = file.read()
print(len(data), flush=True)
sys.exit(42)
