"""Creates a small C project under git, and 2,000 files next to it: make_project.py FOLDER."""

import os
import subprocess
import sys
from pathlib import Path

SOURCES = 40
FILES = 2_000


def main(folder):
    folder.mkdir(parents=True)
    names = [f"part{i}" for i in range(SOURCES)]
    for i, name in enumerate(names):
        body = "\n".join(f"int {name}_{k}(int x) {{ return printf(\"%d\", x * {i + k}); }}" for k in range(50))
        (folder / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n{body}\n")
    objects = " ".join(f"{name}.o" for name in names)
    (folder / "Makefile").write_text(f"parts.a: {objects}\n\tar rcs $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n")
    for i in range(FILES):
        file = folder / "data" / f"{i % 40}" / f"{i}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{i}\n")
    own = os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "all of it"]):
        subprocess.run(["git", "-C", folder, *words], env=own, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
