"""Finds the programs of dlio."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))


def find(program):
    """Returns the path of a program, or None: from DLIO_BIN_DIR, from this package, or from PATH."""
    named = os.environ.get("DLIO_BIN_DIR")
    for directory in [*([named] if named else []), os.path.join(HERE, "bin"), *os.get_exec_path()]:
        path = os.path.join(directory, program)
        if os.path.isfile(path) and os.access(path, os.X_OK) and not _is_console_script(path):
            return path
    return None


def _is_console_script(path):
    """Returns True for the scripts that pip installs for this package: they look for the program, too."""
    try:
        with open(path, "rb") as file:
            start = file.read(1024)
    except OSError:
        return False
    return start.startswith(b"#!") and b"dliotrace.__main__" in start
