"""``python -m dliotrace run script.py ARGS``: runs a Python program with its I/O and its spans traced.

The tracing library of this package goes in front of LD_PRELOAD and the interpreter is executed anew in this very process,
so that signals, standard streams and the exit status are the program's own. Processes it starts are traced too.
"""

import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = "libdliotrace.so"
USAGE = """python -m dliotrace run [-o FOLDER] [-q] (script.py | -m MODULE | -c CODE) [ARGUMENT]...
       python -m dliotrace library
       python -m dliotrace {trace,bench,...} [ARGUMENT]..."""


def library():
    """The tracing library: what DLIO_LIB names (a file or a folder), or the one of this package."""
    named = os.environ.get("DLIO_LIB", "")
    places = [named, os.path.join(named, LIBRARY)] if named else []
    places.append(os.path.join(HERE, "lib", LIBRARY))
    found = next((place for place in places if os.path.isfile(place)), None)
    if found is None:
        sys.exit(f"dliotrace: {places[-1]} is missing; install the wheel of `make wheel`, or set DLIO_LIB to {LIBRARY}")
    return os.path.realpath(found)


def preload(library, present):
    """LD_PRELOAD with the library in front of what is there already, once."""
    others = [part for part in present.replace(":", " ").split() if os.path.basename(part) != LIBRARY]
    return ":".join([library, *others])


def environment(folder):
    """Variables of a traced run; the folder is made absolute, as the program may change its own."""
    folder = os.path.abspath(folder or os.environ.get("DLIO_TRACE_DIR") or "dlio-trace")
    traced = {"LD_PRELOAD": preload(library(), os.environ.get("LD_PRELOAD", "")), "DLIO_TRACE_DIR": folder}
    return {**os.environ, **traced}


def run(arguments):
    parser = argparse.ArgumentParser(prog="python -m dliotrace run", usage=USAGE.splitlines()[0])
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the trace goes [DLIO_TRACE_DIR or ./dlio-trace]")
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say where the trace is")
    own, program = split(arguments)
    options = parser.parse_args(own)
    if not program:
        parser.error("which program? give a script, -m MODULE or -c CODE")
    variables = environment(options.output)
    if not options.quiet:
        folder = variables["DLIO_TRACE_DIR"]
        print(f"dliotrace: tracing into {folder}; afterwards: dlio-analyze {folder}", file=sys.stderr, flush=True)
    # The options this interpreter was started with (-O, -W, -X) are meant for the program.
    flags = subprocess._args_from_interpreter_flags()
    os.execve(sys.executable, [sys.executable, *flags, *program], variables)


def split(arguments):
    """Our own options end where the program begins."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in ("-m", "-c", "--", "-"):
        at += 2 if arguments[at] in ("-o", "--output") else 1
    rest = arguments[at:]
    return arguments[:at], rest[1:] if rest[:1] == ["--"] else rest


def execute(program, arguments):
    """Becomes one of the programs of this package, or one on the PATH."""
    own = os.path.join(HERE, "bin", program)
    found = own if os.access(own, os.X_OK) else shutil.which(program)
    if found is None or os.path.realpath(found) == os.path.realpath(sys.argv[0]):
        sys.exit(f"{program}: this wheel was built without the programs; `make build wheel` puts them in")
    os.execv(found, [program, *arguments])


def dlio():
    execute("dlio", sys.argv[1:])


def dlio_analyze():
    execute("dlio-analyze", sys.argv[1:])


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
