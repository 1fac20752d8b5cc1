"""`python3 -m dliotrace run --torch`: tests spans in unmodified PyTorch programs, and that the programs cannot notice them."""

import json
import os
import subprocess
import sys
import unittest

from test_torch import TORCH, Torch
from traces import Trace, TracedTest, clean_environment

STATE = """
import json, os, sys
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "flags": str(sys.flags), "name": __name__, "file": getattr(main, "__file__", None),
    "spec": main.__spec__ and main.__spec__.name, "modules": sorted(sys.modules), "original": sys.orig_argv,
    "searched": sorted(sys.path_importer_cache),
    "environment": {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("DLIO_")},
}))
"""


class Unseen(TracedTest):
    """Tests that a program's view of itself is the same with --torch and without."""

    def check_state(self, *program, options=(), **variables):
        """Runs with and without the option. Returns the program's output."""
        states = []
        for torch in ([], ["--torch"]):
            command = [sys.executable, *options, "-m", "dliotrace", "run", "-q", "-o", "trace", *torch, *program]
            done = self.start(*command, **variables)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            states.append(json.loads(done.stdout))
        self.assertEqual(*states)
        return states[0]

    def test_scripts_modules_and_code_see_what_they_would(self):
        script = self.write("state.py", STATE)
        self.assertEqual(self.check_state(script, "--torch", "-o")["argv"], [script, "--torch", "-o"])
        self.check_state("-m", "state", "a")
        self.check_state("-c", STATE, "b")

    def test_no_module_is_imported_for_it(self):
        seen = self.check_state("-c", STATE)["modules"]
        self.assertEqual([name for name in seen if name.split(".")[0] in ("torch", "dliotrace", "sitecustomize")], [])

    def test_options_of_the_interpreter_and_its_search_path_stay(self):
        self.check_state("-c", STATE, options=("-O", "-W", "error", "-X", "utf8"))
        path = self.check_state("-c", STATE, PYTHONPATH=f"{self.path('mine')}::{self.path('other')}")["path"]
        self.assertEqual(path[1:4], [self.path("mine"), os.path.realpath(self.folder), self.path("other")])

    def test_children_that_are_executed_see_what_they_would(self):
        code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {STATE!r}, 'x'], check=True)"
        self.assertEqual(self.check_state("-c", code)["argv"], ["-c", "x"])

    def test_the_users_sitecustomize_runs(self):
        os.makedirs(self.path("mine"))
        self.write("mine/sitecustomize.py", "import sys; sys.argv_of_site = 'mine'\n")
        code = f"import sys, sitecustomize; assert sys.argv_of_site == 'mine', sitecustomize\n{STATE}"
        self.check_state("-c", code, PYTHONPATH=self.path("mine"))

    def run_both(self, code, status, **variables):
        """Returns the output, which is the same with and without the option."""
        said = []
        for torch in ([], ["--torch"]):
            command = [sys.executable, "-m", "dliotrace", "run", "-q", "-o", "trace", *torch, self.write("program.py", code)]
            done = self.start(*command, **variables)
            self.assertEqual(done.returncode, status, done.stderr)
            said.append((done.stdout, done.stderr))
        self.assertEqual(*said)
        return said[0]

    def test_a_sitecustomize_that_fails_is_reported_as_ever(self):
        os.makedirs(self.path("mine"))
        self.write("mine/sitecustomize.py", "raise ValueError('on purpose')\n")
        self.assertIn("ValueError: on purpose", self.run_both("", 0, PYTHONPATH=self.path("mine"))[1])

    def test_the_traceback_of_a_pytorch_that_cannot_be_imported_is_its_own(self):
        os.makedirs(self.path("torch"))
        self.write("torch/__init__.py", "import traceback\ntraceback.print_stack()\nraise KeyError('on purpose')\n")
        self.assertIn("KeyError: 'on purpose'", self.run_both("import torch", 1)[1])
        again = "try:\n    import torch\nexcept KeyError:\n    pass\nimport torch\n"
        self.assertEqual(self.run_both(again, 1)[1].count("torch/__init__.py"), 3)

    def test_a_finder_with_specs_of_its_own_is_left_alone(self):
        code = """
import sys
class Spec:
    __slots__ = ("name", "loader", "origin", "submodule_search_locations", "cached", "has_location", "parent", "loader_state")
    _initializing = False
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            spec = Spec()
            for attribute in Spec.__slots__:
                setattr(spec, attribute, None)
            spec.name = name
            spec.loader = self
            return spec
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        module.kind = "strange"
sys.meta_path.insert(1, Finder())
try:
    import torch
    print(torch.kind)
except Exception as error:
    print(type(error), error)
"""
        self.run_both(code, 0)

    def test_a_pytorch_that_is_too_strange_runs_without_spans_and_one_line_says_so(self):
        os.makedirs(self.path("torch/utils"))
        for name in ("torch/__init__.py", "torch/utils/__init__.py", "torch/utils/data.py"):
            self.write(name, "")
        program = self.write("program.py", "import torch.utils.data, sys\nprint(sys.modules['torch'].__spec__.name)\nsys.exit(3)")
        done = self.start(sys.executable, "-m", "dliotrace", "run", "-q", "--torch", program)
        self.assertEqual((done.returncode, done.stdout), (3, "torch\n"))
        (line,) = done.stderr.splitlines()
        self.assertRegex(line, "^dliotrace: cannot add spans to PyTorch: .*; the program runs without them$")

    def test_a_python_that_ignores_the_environment_is_refused(self):
        for option in ("-I", "-E"):
            done = self.start(sys.executable, option, "-m", "dliotrace", "run", "--torch", "-c", "pass")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("start Python without -I, -E and -S", done.stderr)


TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.full((4,), float(index))

def train(**options):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for batch in DataLoader(Numbers(), batch_size=3, **options):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    print(model.weight.tolist())
"""
CONTEXTS = TRAIN + """
if __name__ == "__main__":
    train()
    for context in ("fork", "spawn", "forkserver"):
        train(num_workers=2, multiprocessing_context=context)
    sys.exit(5)
"""
RANK = TRAIN + """
torch.distributed.init_process_group("gloo")
train(num_workers=1)
torch.distributed.destroy_process_group()
"""
LATER = "import sys\nassert 'torch' not in sys.modules\n" + TRAIN + "train()\n"


@unittest.skipUnless(TORCH, "`make test-torch` installs PyTorch")
class Spans(Torch):
    def traced(self, *program, status=0):
        """Returns the trace, the number of each span, and the output, which is the same without a tracer."""
        done = self.start(sys.executable, "-m", "dliotrace", "run", "-q", "--torch", "-o", "trace", *program)
        self.assertEqual(done.returncode, status, done.stderr)
        plain = subprocess.run(
            [sys.executable, *program], cwd=self.folder, env=clean_environment(), capture_output=True, text=True, check=False
        )
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(plain.stdout.splitlines()), done.stderr)
        trace = Trace(self.path("trace"))
        rows = trace.rows("select name, count(*) as n from events where cat in ('data', 'compute') group by name")
        return trace, {row["name"]: int(row["n"]) for row in rows}

    def test_a_script_has_spans_in_itself_and_in_workers_however_they_start(self):
        trace, counts = self.traced(self.write("train.py", CONTEXTS), status=5)
        steps = {name: 16 for name in ("fetch", "collate", "forward", "backward", "optimizer.step")}
        self.assertEqual(counts, {**steps, "loader.start": 4, "fetch.end": 4, "item": 48})
        self.assertEqual(trace.value("select count(distinct pid) as n from events where name = 'item'"), "7")

    def test_code_that_imports_pytorch_late_has_spans(self):
        _, counts = self.traced("-c", LATER)
        self.assertEqual((counts["fetch"], counts["item"], counts["optimizer.step"]), (4, 12, 4))

    def test_ranks_that_torchrun_starts_have_spans(self):
        script = self.write("rank.py", RANK)
        trace, counts = self.traced("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script)
        self.assertEqual((counts["fetch"], counts["item"], counts["optimizer.step"]), (8, 24, 8))
        ranks = trace.rows("select rank, count(*) as n from events where name = 'forward' group by rank order by rank")
        self.assertEqual([(row["rank"], row["n"]) for row in ranks], [("0", "4"), ("1", "4")])

    def test_a_program_that_calls_instrument_itself_has_each_span_once(self):
        code = TRAIN.replace("import sys", "import sys, dliotrace.torch\ndliotrace.torch.instrument()", 1)
        _, counts = self.traced("-c", code + "dliotrace.torch.instrument()\ntrain(num_workers=1)\n")
        self.assertEqual((counts["fetch"], counts["item"], counts["optimizer.step"], counts["forward"]), (4, 12, 4, 4))

    def test_where_nothing_is_recorded_nothing_is_replaced(self):
        code = "import torch, sys\nprint(torch.save.__module__, hasattr(torch.save, '_dliotrace'), 'dliotrace' in sys.modules)"
        command = [sys.executable, "-m", "dliotrace", "run", "-q", "--torch", "-c", code]
        done = self.start(*command, DLIO_TRACE="0")
        self.assertEqual((done.stdout, done.stderr), ("torch.serialization False False\n", ""))


if __name__ == "__main__":
    unittest.main()
