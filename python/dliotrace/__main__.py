"""``python3 -m dliotrace run script.py ARGS`` runs a Python program and traces its I/O and spans.

It adds the tracing library of this package to LD_PRELOAD and executes the interpreter again in the same process, so signals,
standard streams and the exit status are the program's own. Child processes are traced too.

``python3 -m dliotrace run --torch train.py`` also adds spans to PyTorch, without a change to the script: fetch, item, forward,
backward, optimizer step and others, including loader workers and ranks of torchrun.
"""

import argparse
import os
import subprocess
import sys

from dliotrace import _programs

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "libdliotrace.so"
# Python runs the sitecustomize.py in this directory before the program.
START = os.path.join(HERE, "_start")
USAGE = """python3 -m dliotrace run [-o DIR] [-q] [--torch] (script.py | -m MODULE | -c CODE) [ARGUMENT]...
       python3 -m dliotrace library
       python3 -m dliotrace {trace,bench,...} [ARGUMENT]..."""
EXAMPLES = """examples:
  python3 -m dliotrace run train.py --epochs 3             I/O, and the spans in train.py
  python3 -m dliotrace run --torch train.py --epochs 3     also spans of PyTorch, without changes to train.py
  python3 -m dliotrace run --torch -m torch.distributed.run --nproc-per-node 2 train.py
"""


def library():
    """Returns the path of the tracing library: DLIO_LIB (a file or a directory), or the one in this package."""
    named = os.environ.get("DLIO_LIB", "")
    places = [named, os.path.join(named, LIBRARY)] if named else []
    places.append(os.path.join(HERE, "lib", LIBRARY))
    found = next((place for place in places if os.path.isfile(place)), None)
    if found is None:
        sys.exit(f"dliotrace: cannot find {places[-1]}; install the wheel built by `make wheel`, or set DLIO_LIB to {LIBRARY}")
    return os.path.realpath(found)


def preload(library, present):
    """Returns LD_PRELOAD with the library first, and only once."""
    others = [part for part in present.replace(":", " ").split() if os.path.basename(part) != LIBRARY]
    return ":".join([library, *others])


def search_path(present):
    """Returns PYTHONPATH with our directory first, and only once. sitecustomize.py removes it from sys.path."""
    # An empty part means the current directory, but an empty variable means nothing.
    others = [part for part in present.split(os.pathsep) if part != START] if present else []
    return os.pathsep.join([START, *others])


def environment(folder, torch=False):
    """Returns the environment of a traced run. The directory is absolute, because the program may change its own."""
    folder = os.path.abspath(folder or os.environ.get("DLIO_TRACE_DIR") or "dlio-trace")
    traced = {"LD_PRELOAD": preload(library(), os.environ.get("LD_PRELOAD", "")), "DLIO_TRACE_DIR": folder}
    if torch:
        traced["PYTHONPATH"] = search_path(os.environ.get("PYTHONPATH", ""))
    return {**os.environ, **traced}


def run(arguments):
    parser = argparse.ArgumentParser(
        prog="python3 -m dliotrace run", usage=USAGE.splitlines()[0], description="Traces a Python program.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write the trace into DIR [default: DLIO_TRACE_DIR or ./dlio-trace]")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print the path of the trace")
    parser.add_argument(
        "--torch", action="store_true",
        help="add spans to PyTorch when the program imports it: fetch, item, forward, backward and others, like "
        "dliotrace.torch.instrument(). Includes child processes; no effect on programs without PyTorch",
    )
    own, program = split(arguments)
    options = parser.parse_args(own)
    if not program:
        parser.error("no program to run; pass a script, -m MODULE or -c CODE")
    if options.torch and (sys.flags.ignore_environment or sys.flags.no_site):
        parser.error("cannot add spans to PyTorch: --torch needs PYTHONPATH and `site`; start Python without -I, -E and -S")
    variables = environment(options.output, options.torch)
    if not options.quiet:
        folder = variables["DLIO_TRACE_DIR"]
        print(f"dliotrace: tracing into {folder}; afterwards: dlio-analyze {folder}", file=sys.stderr, flush=True)
    # The options this interpreter was started with (-O, -W, -X) are meant for the program.
    flags = subprocess._args_from_interpreter_flags()
    os.execve(sys.executable, [sys.executable, *flags, *program], variables)


def split(arguments):
    """Splits the arguments into dliotrace's options and the program with its arguments."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-m", "-c", "--", "-"):
        at += 2 if arguments[at] in ("-o", "--output") else 1
    rest = arguments[at:]
    return arguments[:at], rest[1:] if rest[:1] == ["--"] else rest


def execute(program, arguments, name=None):
    """Executes one of the programs of this package, or one in DLIO_BIN_DIR or PATH; `name` is its first argument."""
    found = _programs.find(program)
    if found is None:
        sys.exit(f"cannot find {program}: this wheel was built without the programs; rebuild it with `make wheel`")
    os.execv(found, [name or program, *arguments])


def dlio():
    execute("dlio", sys.argv[1:])


def dlio_analyze():
    execute("dlio-analyze", sys.argv[1:])


def dlio_top():
    execute("dlio-top", sys.argv[1:])


def dlio_benchmark():
    """Executes dlio under the name that selects DLIO's command line."""
    execute("dlio", sys.argv[1:], "dlio_benchmark")


def main():
    command, arguments = (sys.argv[1] if len(sys.argv) > 1 else "--help"), sys.argv[2:]
    if command == "run":
        run(arguments)
    elif command == "library":
        print(library())
    elif command in ("-h", "--help"):
        print(f"usage: {USAGE}\n\n{__doc__}")
    elif command == "analyze":
        execute("dlio-analyze", arguments)
    else:
        execute("dlio", [command, *arguments])


if __name__ == "__main__":
    main()
