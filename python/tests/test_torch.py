"""Tests the hooks in the real PyTorch: their spans, and that programs cannot notice them."""

import collections
import importlib.util
import json
import os
import sys
import unittest

from traces import EXAMPLES, HERE, Trace, TracedTest

TORCH = importlib.util.find_spec("torch") is not None and importlib.util.find_spec("lightning") is not None

# For each case, the number of times each span occurs, in all of its processes.
LOADER = collections.Counter({"loader.start": 1, "fetch.end": 1})
CASES = {
    "data_sets_of_any_type": {"loader.start": 6, "fetch": 12, "fetch.end": 6, "item": 24, "collate": 12},
    "forked_workers": LOADER + collections.Counter(fetch=4, item=12, collate=4),
    "spawned_workers": LOADER + collections.Counter(fetch=4, item=12, collate=4),
    "workers_of_a_fork_server": LOADER + collections.Counter(fetch=4, item=12, collate=4),
    "persistent_workers": {"loader.start": 3, "fetch": 9, "fetch.end": 3, "item": 36, "collate": 9},
    "pinned_memory": LOADER + collections.Counter(fetch=3, item=12, collate=3),
    "subsets": {"loader.start": 5, "fetch": 10, "fetch.end": 5, "item": 18, "items": 1, "collate": 10},
    "whole_batches": {"loader.start": 2, "fetch": 6, "fetch.end": 2, "items": 6, "collate": 6},
    "samples_one_by_one": LOADER + collections.Counter(fetch=12, item=12, collate=12),
    "streams": {"loader.start": 2, "fetch": 7, "fetch.end": 2, "item": 20, "item.end": 3, "collate": 7},
    "failing_parts": {"loader.start": 2, "fetch": 2, "item": 4},
    "impossible_data_sets": {"loader.start": 3, "fetch": 3, "item": 3},
    "loaders_side_by_side": {"loader.start": 2, "fetch": 6, "item": 24, "collate": 6, "fetch.end": 1},
    "loaders_in_loops_of_loaders": {"loader.start": 3, "fetch": 6, "fetch.end": 3, "item": 6, "collate": 6},
    "loaders_within_data_sets": {
        "loader.start": 26, "fetch": 4, "fetch.nested": 48, "fetch.end": 26, "item": 24, "item.nested": 48, "collate": 52,
    },
    "own_loaders": {"loader.start": 2, "fetch": 4, "fetch.end": 2, "item": 24, "collate": 4},
    "modules_in_data_sets": {"loader.start": 2, "fetch": 4, "fetch.end": 2, "item": 24, "collate": 4},
    "training": LOADER + collections.Counter(
        {"fetch": 4, "item": 8, "collate": 4, "forward": 4, "backward": 4, "optimizer.step": 4}
    ),
    "losses_that_are_modules": LOADER + collections.Counter(
        {"fetch": 4, "item": 8, "collate": 4, "forward": 4, "forward.MSELoss": 4, "backward": 4, "optimizer.step": 4}
    ),
    "transforms": {"transform.Compose": 3},
    "mixed_precision": LOADER + collections.Counter(
        {"fetch": 4, "item": 8, "collate": 4, "forward": 4, "backward": 4, "optimizer.step": 4}
    ),
    # Five steps that end, and one whose closure fails: each closure ends a part.
    "closures": {"forward": 9, "backward": 9, "optimizer.part": 10, "optimizer.step": 5},
    "failing_steps": {"forward": 1, "backward": 1, "optimizer.failed": 1, "optimizer.step": 1},
    "failing_models": {"forward": 2, "backward": 1},
    "compiled_models": {
        "loader.start": 2, "fetch": 8, "fetch.end": 2, "item": 16, "collate": 8, "forward": 8, "backward": 8,
        "optimizer.step": 8,
    },
    "recomputed_forwards": {"forward": 2, "backward": 2},
    "checkpoints": {"checkpoint.save": 5, "checkpoint.load": 5},
    "instrumented_anew": {
        "loader.start": 2, "fetch": 6, "fetch.end": 2, "item": 20, "collate": 6, "forward": 4, "backward": 4,
        "optimizer.step": 4,
    },
}
KINDS = "('data', 'compute', 'pipeline', 'comm', 'checkpoint')"


@unittest.skipUnless(TORCH, "`make test-torch` installs PyTorch")
class Torch(TracedTest):
    def run_both(self, program):
        """Returns the trace and the last printed line, which is the same without instrumentation."""
        program = os.path.join(HERE, "programs", program)
        trace, printed = self.run_traced(program)
        os.makedirs(self.path("plain"))
        plain = self.start(sys.executable, program, "plain", cwd=self.path("plain"))
        self.assertEqual(plain.returncode, 0, plain.stderr)
        return trace, printed.splitlines(), plain.stdout.splitlines()


class Cases(Torch):
    def test_each_case_has_its_spans_and_the_results_of_a_run_without_them(self):
        trace, printed, plain = self.run_both("torch_cases.py")
        results = {name: result for name, result, _ in map(json.loads, printed)}
        for ours, others in zip(printed, plain, strict=True):
            self.assertEqual(ours, others)
        self.assertEqual(set(CASES) - set(results), set())
        self.check_counts(trace)
        self.check_items(trace)
        self.check_loaders(trace)
        self.check_computing(trace)
        self.check_checkpoints(trace, results["checkpoints"][1])

    def within(self, case):
        """Returns the events of a case, in any process."""
        return (
            f"ts >= (select min(ts) from events where cat = 'case' and name = '{case}') and "
            f"ts <= (select min(ts + dur) from events where cat = 'case' and name = '{case}')"
        )

    def check_counts(self, trace):
        rows = trace.rows(
            "select c.name as run, e.name, count(*) as n from events e join events c on c.cat = 'case' and e.ts >= c.ts "
            f"and e.ts < c.ts + c.dur where e.cat in {KINDS} group by c.name, e.name"
        )
        seen = collections.defaultdict(dict)
        for row in rows:
            seen[row["run"]][row["name"]] = int(row["n"])
        for case, expected in CASES.items():
            with self.subTest(case):
                self.assertEqual(seen[case], dict(expected))

    def check_items(self, trace):
        parent = trace.value("select min(pid) as pid from events where cat = 'case'")
        for case in ("forked_workers", "spawned_workers", "workers_of_a_fork_server"):
            with self.subTest(case):
                condition = f"name = 'item' and {self.within(case)}"
                items = trace.arguments(condition)
                self.assertEqual(sorted(int(item["index"]) for item in items), list(range(12)))
                self.assertEqual({item["worker"] for item in items}, {"0", "1"})
                self.assertEqual(trace.count(f"{condition} and pid = {parent}"), 0)
        indices = [int(item["index"]) for item in trace.arguments(f"name = 'item' and {self.within('subsets')}")]
        self.assertEqual(indices[:6], [7, 3, 9, 1, 7, 9], "samples are called as their own data set calls them")
        counts = trace.arguments(f"name = 'items' and {self.within('whole_batches')}")
        self.assertEqual({item["count"] for item in counts}, {"4"})
        failed = [item.get("exception") for item in trace.arguments(f"name = 'item' and {self.within('failing_workers')}")]
        self.assertEqual(failed.count("LookupError"), 2)
        self.assertEqual(trace.count(f"name = 'fetch' and {self.within('failing_workers')}"), 4)
        self.assertEqual(trace.count(f"name = 'fetch' and {self.within('early_break')}"), 2)

    def check_loaders(self, trace):
        within = self.within("persistent_workers")
        steps = trace.rows(f"select epoch, step from events where name = 'fetch' and {within} order by ts")
        self.assertEqual([(row["epoch"], row["step"]) for row in steps], [(str(e), str(s)) for e in range(3) for s in range(3)])
        within = self.within("loaders_side_by_side")
        loaders = [each["loader"] for each in trace.arguments(f"name = 'fetch' and {within}")]
        self.assertEqual(len(set(loaders)), 2)
        self.assertEqual(loaders[0::2], loaders[:1] * 3, "each batch is counted to its own loader")

    def check_computing(self, trace):
        self.assertEqual(trace.count(f"cat = 'compute' and {self.within('modules_in_data_sets')}"), 0)
        # A call within another one of the same thread would be counted twice.
        nested = trace.count(
            "cat = 'compute' and exists (select 1 from events o where o.cat = 'compute' and o.pid = events.pid and "
            "o.tid = events.tid and o.depth < events.depth and o.ts <= events.ts and events.ts + events.dur <= o.ts + o.dur)"
        )
        self.assertEqual(nested, 0)
        within = self.within("compiled_functions")
        self.assertEqual(trace.count(f"name = 'forward' and {within}"), 0)
        # Two of each belong to the model of the previous case.
        for name in ("backward", "optimizer.step"):
            self.assertEqual(trace.count(f"name = '{name}' and cat = 'pipeline' and {within}"), 8)

    def check_checkpoints(self, trace, sizes):
        condition = f"name = 'checkpoint.save' and {self.within('checkpoints')}"
        saved = trace.arguments(condition)
        found = {each["path"]: int(each["bytes"]) for each in saved if "path" in each}
        self.assertEqual(found, {
            "plain.pt": sizes["plain.pt"], "open.pt": sizes["open.pt"],
            "tensors.safetensors": sizes["tensors.safetensors"], "sharded": sizes["sharded/__0_0.distcp"],
        })
        (buffer,) = [each for each in saved if "path" not in each]
        self.assertGreater(int(buffer["bytes"]), 4000)
        loaded = trace.arguments(f"name = 'checkpoint.load' and {self.within('checkpoints')}")
        self.assertEqual([each.get("path") for each in loaded if each.get("exception")], ["absent.pt"])


class Frameworks(Torch):
    def counts(self, trace):
        rows = trace.rows(f"select name, count(*) as n from events where cat in {KINDS} group by name")
        return {row["name"]: int(row["n"]) for row in rows}

    def test_two_ranks_show_what_of_their_reduction_is_not_hidden(self):
        trace, printed, plain = self.run_both("torch_ranks.py")
        self.assertEqual(printed, plain)
        counts = self.counts(trace)
        self.assertEqual([counts[name] for name in ("fetch", "forward", "backward", "optimizer.step")], [8, 10, 10, 8])
        reduced = "name = 'all_reduce' and args['by'] = 'DistributedDataParallel'"
        self.assertEqual(trace.count(f"{reduced} and cat = 'comm'"), 8, "one a backward, none within no_sync")
        self.assertEqual(trace.count("name = 'all_reduce' and args['bytes'] = '4'"), 2)
        self.assertEqual(counts["barrier"], 2)
        ranks = trace.rows("select rank, count(*) as n from events where name = 'forward' group by rank order by rank")
        self.assertEqual([(row["rank"], row["n"]) for row in ranks], [("0", "5"), ("1", "5")])
        saved = trace.rows("select rank, args['path'] as path, args['bytes'] as bytes from events where name = 'checkpoint.save'")
        sizes = {(row["rank"], row["path"], int(row["bytes"])) for row in saved}
        files = {(str(rank), "ranks", os.path.getsize(self.path(f"ranks/__{rank}_0.distcp"))) for rank in range(2)}
        self.assertEqual(sizes, files)

    def test_the_trainer_of_transformers_is_seen_step_by_step(self):
        trace, printed, plain = self.run_both("torch_trainer.py")
        self.assertEqual(printed[-1], plain[-1])
        counts = self.counts(trace)
        self.assertEqual([counts[name] for name in ("fetch", "forward", "backward", "optimizer.step")], [6, 6, 6, 6])
        self.assertEqual(counts["item"], 24)
        saved = {os.path.basename(each["path"]): int(each["bytes"]) for each in trace.arguments("name = 'checkpoint.save'")}
        folder = self.path("out/checkpoint-6")
        self.assertEqual(saved, {name: os.path.getsize(os.path.join(folder, name)) for name in saved})
        self.assertLessEqual({"model.safetensors", "optimizer.pt"}, set(saved))

    def test_lightning_counts_no_closure_twice(self):
        trace, printed, plain = self.run_both("torch_lightning.py")
        self.assertEqual(printed[-1], plain[-1])
        counts = self.counts(trace)
        # Two epochs of four batches and two for validation, and two earlier ones.
        self.assertEqual([counts[name] for name in ("fetch", "forward", "backward", "optimizer.step")], [14, 14, 8, 8])
        inside = trace.count("name in ('forward', 'backward') and depth > 0")
        self.assertEqual(inside, 0)
        # The first one is removed once the second one exists.
        saved = trace.arguments("name = 'checkpoint.save'")
        self.assertEqual(len(saved), 2)
        self.assertEqual(int(saved[1]["bytes"]), os.path.getsize(self.path(saved[1]["path"])))

    def test_the_example_shows_reads_within_items(self):
        trace, _ = self.run_traced(os.path.join(EXAMPLES, "torch_loader.py"), self.path("data"))
        counts = self.counts(trace)
        self.assertEqual([counts[name] for name in ("fetch", "forward", "backward", "optimizer.step")], [8, 8, 8, 8])
        self.assertEqual([counts[name] for name in ("item", "loader.start")], [32, 2])
        self.assertEqual([counts[name] for name in ("checkpoint.save", "checkpoint.load")], [1, 1])
        self.assertEqual(trace.count("name = 'read' and depth >= 1 and file like '%.bin' and bytes = 65536"), 32)


class Late(Torch):
    LATE = """
import sys
import torch
from torch.utils.data import DataLoader
import dliotrace.torch
loader = DataLoader(range(8), batch_size=2, num_workers=1, persistent_workers=True)
first = list(loader)
dliotrace.torch.instrument()
print([batch.tolist() for batch in first + list(loader)])
fresh = DataLoader(range(8), batch_size=2, num_workers=1)
print([batch.tolist() for batch in fresh])
"""

    def test_instrumented_late_it_says_what_is_missing_and_sees_the_rest(self):
        done = self.start(
            sys.executable, "-m", "dliotrace", "run", "-q", "-o", "trace", self.write("late.py", self.LATE)
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("dliotrace:")]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("before instrument() was called", said[0])
        trace = Trace(self.path("trace"))
        self.assertEqual((trace.count("name = 'fetch'"), trace.count("name = 'item'")), (8, 8))

    UNSEEN = """
import torch
import dliotrace.torch
dliotrace.torch.instrument()
weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weight * 2).sum().backward()
    optimizer.step()
"""

    def test_computing_that_is_seen_in_part_is_not_taken_for_all_of_it(self):
        trace, _ = self.trace_code(self.UNSEEN)
        self.assertEqual(trace.count("class = 'compute'"), 0)
        self.assertEqual(trace.count("cat = 'pipeline' and name in ('backward', 'optimizer.step')"), 6)

    COMPILED = """
import torch
import dliotrace.torch
dliotrace.torch.instrument()
model = torch.nn.Sequential(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = torch.compile(lambda batch: model(batch).sum(), backend="aot_eager", fullgraph=True)
for _ in range(3):
    optimizer.zero_grad()
    step(torch.ones(2, 4)).backward()
    optimizer.step()
with torch.no_grad():
    model(torch.ones(2, 4))
"""

    def test_a_validation_that_is_seen_is_not_taken_for_the_computing_of_a_compiled_training(self):
        trace, _ = self.trace_code(self.COMPILED)
        self.assertEqual(trace.count("name = 'forward' and class = 'compute'"), 1)
        report = trace.report()
        self.assertIsNone(report["time"]["compute_ns"])
        self.assertEqual([group["computed_ns"] for group in report["training"]], [None] * len(report["training"]))

    def test_without_a_trace_nothing_is_replaced(self):
        code = """
import torch
from torch.utils.data import dataloader
before = (torch.save, torch.nn.Module.__call__, dataloader._BaseDataLoaderIter.__next__, torch.autograd.backward)
import dliotrace.torch
dliotrace.torch.instrument()
after = (torch.save, torch.nn.Module.__call__, dataloader._BaseDataLoaderIter.__next__, torch.autograd.backward)
print(before == after)
"""
        done = self.start(sys.executable, self.write("program.py", code))
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))


class Profiled(Torch):
    def test_waits_that_the_profiler_tells_of_lie_within_ours(self):
        program, profile = os.path.join(HERE, "programs", "torch_profiled.py"), self.path("profile.json")
        trace, _ = self.run_traced(program, profile)
        select = "select ts, ts + dur as till from events where {} order by ts"
        ours = trace.rows(select.format("name in ('fetch', 'fetch.end')"))
        theirs = Trace(profile).rows(select.format("name like 'enumerate(DataLoader)%'"))
        self.assertEqual((len(ours), len(theirs)), (11, 11))
        # The profiler reads another clock, which it synchronizes with ours from time to time.
        slack = 2_000_000
        for outer, inner in zip(ours, theirs, strict=True):
            self.assertGreaterEqual(int(inner["ts"]) + slack, int(outer["ts"]))
            self.assertLessEqual(int(inner["till"]), int(outer["till"]) + slack)


if __name__ == "__main__":
    unittest.main()
