"""subprocess closes descriptors and uses vfork or posix_spawn: the programs it starts are traced, and their output arrives."""
#= exit: 42
#= processes: >=3
#= endings: *
#= on data: open=2 close=2 read=4 fstat=2 posix_fadvise=2
import subprocess
import sys

with open("made", "w") as file:
    file.write("x" * 10)
import os

os.rename("made", "data")
one = subprocess.run(["cat", "data"], capture_output=True, close_fds=True)
two = subprocess.run("cat data", shell=True, capture_output=True, text=True)
print(one.stdout, two.stdout)
sys.exit(42 if one.stdout == b"x" * 10 and two.stdout == "x" * 10 else 1)
