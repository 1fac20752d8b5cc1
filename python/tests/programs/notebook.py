"""Runs the cells of a notebook in order, and prints what each of them shows, as a notebook would. ``notebook.py FILE``."""

import ast
import json
import sys


def show(value):
    if value is not None:
        print(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


def run(source, names):
    """Runs a cell; shows the value of its last line if that is an expression."""
    cell = ast.parse(source)
    last = cell.body.pop() if cell.body and isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, "cell", "exec"), names)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), "cell", "eval"), names))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        notebook = json.load(file)
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            run("".join(cell["source"]), names)


main()
