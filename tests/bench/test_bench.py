"""Tests the harness itself: its arithmetic, its list, and its handling of commands that hang, crash or run out of space."""

import contextlib
import io
import random
import tempfile
import textwrap
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import bench
import cases
import guard
import paired
import places
import readme
import report
import results
from runner import Run, Runner

SMALL = """
[peer.absent]
what = "Absent"
command = "no-such-command-anywhere"
get = "no package has it"

[under.bare]
what = "bare"

[prepare.large]
command = ["true"]
events = 100_000_000
bytes_an_event = 20

[[case]]
group = "harness"
name = "two sides"
operations = 1000
rounds = 8
[[case.side]]
name = "one"
what = "one"
command = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]
[[case.side]]
name = "other"
what = "other"
command = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]

[[budget]]
what = "a promise"
case = "two sides"
side = "other"
figure = "ratio.cpu"
sense = "at most"
limit = 1.5
unit = "x"
"""


def plan(text=SMALL, quick=False):
    return cases.plan(tomllib.loads(text), quick)


def case_with(*commands, rounds=3, limit=5, **more):
    sides = [cases.Side(f"side {i}", f"side {i}", command=command) for i, command in enumerate(commands)]
    return cases.Case("harness", "made here", sides, rounds=rounds, limit=limit, **more)


class Harness(unittest.TestCase):
    """A bench whose programs are compiled once, for all tests that run commands."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.here = places.Places(plan(), cls.folder)
        cls.runner = Runner(cls.here.values["launch"])

    def measure(self, case, runner=None):
        bench_of = bench.Bench(self.here.plan, self.here, runner or self.runner, None)
        return bench_of.case(case)

    def run_once(self, *command, limit=5, environment=None):
        with places.fresh_folder(self.folder / "once") as folder:
            return self.runner.run(list(command), environment or {}, folder, limit)


class Medians(unittest.TestCase):
    def test_the_median_of_an_even_count_lies_between_the_middle_two(self):
        self.assertEqual(paired.median([4, 1, 3, 2]).value, 2.5)

    def test_one_value_is_its_own_interval_and_covers_nothing(self):
        alone = paired.median([7.0])
        self.assertEqual((alone.low, alone.value, alone.high, alone.coverage), (7, 7, 7, 0))

    def test_an_outlier_moves_neither_the_median_nor_the_interval(self):
        calm, wild = paired.median(range(1, 10)), paired.median([*range(1, 9), 1e9])
        self.assertEqual((calm.value, calm.low, calm.high), (wild.value, wild.low, wild.high))

    def test_coverage_is_that_of_tosses_of_a_coin(self):
        self.assertAlmostEqual(paired.median(range(5)).coverage, 1 - 2 / 32)
        nine = paired.median(range(9))
        self.assertEqual((nine.low, nine.high), (1, 7))
        self.assertAlmostEqual(nine.coverage, 1 - 2 * (1 + 9) / 512)

    def test_an_interval_holds_the_true_median_as_often_as_it_says(self):
        noise = random.Random(4)
        holds = sum(paired.median([noise.expovariate(1) for _ in range(9)]).holds(0.6931) for _ in range(4000)) / 4000
        self.assertAlmostEqual(holds, paired.median(range(9)).coverage, delta=0.02)

    def test_rounds_without_a_value_of_both_are_left_out(self):
        self.assertEqual(paired.ratios([1, 2, None], [2, None, 5]), [2])


class Pairs(Harness):
    def test_the_same_program_on_both_sides_has_a_ratio_of_one(self):
        # Eight rounds cover 99 %: three tries in a row fail once in a million times.
        tries = (self.measure(self.here.plan.cases[0])["sides"][1]["against"]["ratio"]["cpu"] for _ in range(3))
        self.assertTrue(any(ratio["low"] <= 1 <= ratio["high"] for ratio in tries))

    def test_sides_are_run_in_turn(self):
        order = []

        class Noting:
            def run(self, command, *_):
                order.append(command[0])
                return Run(1, 1, 1)

        self.measure(case_with(["a"], ["b"], rounds=3), Noting())
        self.assertEqual(order, ["a", "b", "a", "b", "a", "b"])

    def test_noise_that_both_sides_share_cancels_out(self):
        noise = random.Random(2)
        loads = [1 + noise.random() * 5 for _ in range(9) for _ in range(2)]

        class Noisy:
            def run(self, command, *_):
                Noisy.calls += 1
                load = loads[(Noisy.calls - 1) // 2 * 2]
                return Run(wall=load, cpu=load * (1.5 if command == ["b"] else 1), memory=1)

        Noisy.calls = 0
        ratio = self.measure(case_with(["a"], ["b"], rounds=9), Noisy())["sides"][1]["against"]["ratio"]["cpu"]
        self.assertAlmostEqual(ratio["low"], 1.5)
        self.assertAlmostEqual(ratio["high"], 1.5)

    def test_a_hanging_side_is_told_and_the_rest_goes_on(self):
        seen = self.measure(case_with(["true"], ["sleep", "60"], ["true"], limit=0.3))
        self.assertIn("hung", seen["sides"][1]["trouble"])
        self.assertEqual([len(side["series"]["cpu"]) for side in seen["sides"]], [3, 0, 3])

    def test_a_crashing_side_is_told_and_the_rest_goes_on(self):
        seen = self.measure(case_with(["true"], ["sh", "-c", "kill -SEGV $$"], ["true"]))
        self.assertIn("SIGSEGV", seen["sides"][1]["trouble"])
        self.assertEqual(len(seen["sides"][2]["series"]["cpu"]), 3)

    def test_a_crash_of_the_first_side_leaves_the_others_without_a_ratio(self):
        seen = self.measure(case_with(["false"], ["true"]))
        self.assertEqual(seen["sides"][1]["against"]["ratio"], {})
        self.assertIn("failed with status 1", report.case_text(seen))

    def test_a_peer_that_is_not_there_is_told(self):
        side = cases.Side("peer", "Absent", command=["true"], peer="absent")
        seen = self.measure(cases.Case("harness", "made here", [side]))
        self.assertEqual(seen["sides"][0]["trouble"], "Absent is not installed")
        self.assertIn("absent", self.here.missing_peers())

    def test_what_a_side_needs_is_made_before_each_of_its_runs_and_not_measured(self):
        made = ["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; mkdir {trace}"]
        side = cases.Side("one", "one", before=made, command=["rmdir", "{trace}"])
        seen = self.measure(cases.Case("harness", "made here", [side], rounds=2))["sides"][0]
        self.assertEqual((seen["trouble"], len(seen["series"]["cpu"])), ("", 2))
        preparing = self.run_once(*made[:2], made[2].replace("{trace}", str(self.folder / "made")))
        self.assertLess(max(seen["series"]["cpu"]), preparing.cpu / 2)

    def test_what_a_side_needs_and_cannot_be_made_is_told(self):
        side = cases.Side("one", "one", before=["sh", "-c", "echo no room; exit 3"], command=["true"])
        seen = self.measure(cases.Case("harness", "made here", [side]))
        self.assertEqual(seen["sides"][0]["trouble"], "failed with status 3: no room")

    def test_a_command_that_prints_no_figure_is_told(self):
        seen = self.measure(case_with(["echo", "nothing"], figures={"speed": r"(\d+) MB/s"}))
        self.assertIn("printed no figure for speed", seen["sides"][0]["trouble"])


class Commands(Harness):
    def test_time_and_memory_are_those_of_the_command(self):
        seen = self.run_once("python3", "-c", "x = bytearray(200 << 20); sum(range(3_000_000))")
        self.assertEqual(seen.trouble, "")
        self.assertGreater(seen.cpu, 0.01)
        self.assertGreater(seen.memory, 200 * 1024)
        self.assertLess(self.run_once("true").memory, 8 * 1024)

    def test_variables_reach_the_command_alone(self):
        self.assertEqual(self.run_once("sh", "-c", "echo $WORD", environment={"WORD": "here"}).said, "here\n")

    def test_a_command_that_does_not_exist_is_told(self):
        self.assertIn("status 127", self.run_once("no-such-command-anywhere").trouble)

    def test_what_a_hanging_command_started_is_ended_too(self):
        mark = self.folder / "started"
        self.run_once("sh", "-c", f"(sleep 30; touch {mark}) & sleep 30", limit=0.2)
        self.assertFalse(mark.exists())

    def test_an_error_is_quoted_rather_than_what_follows_it(self):
        seen = self.run_once("sh", "-c", "echo 'ValueError: no data'; echo bye; exit 3")
        self.assertEqual(seen.trouble, "failed with status 3: ValueError: no data")


class Room(Harness):
    def prepare(self, free):
        here = places.Places(plan(), self.folder)
        with mock.patch("machine.free_bytes", return_value=free), contextlib.redirect_stdout(io.StringIO()) as said:
            return *here.prepare("large", self.runner), said.getvalue()

    def test_a_large_disk_gets_what_was_asked_for(self):
        self.assertEqual(self.prepare(10 << 30), (100_000_000, "", ""))

    def test_a_small_disk_gets_fewer_events_and_that_is_said(self):
        events, trouble, said = self.prepare(2 << 30)
        self.assertEqual((events, trouble), (10_000_000, ""))
        self.assertIn("10,000,000 events instead of 100,000,000", said)

    def test_a_full_disk_is_trouble_and_no_crash(self):
        events, trouble, _ = self.prepare(1 << 20)
        self.assertEqual(events, 0)
        self.assertIn("too small", trouble)

    def test_a_budget_met_with_fewer_events_says_so(self):
        case = case_with(["a"], ["b"])
        runs = {side.name: [Run(1, 1, 1)] for side in case.sides}
        seen = results.case(case, runs, {}, (10_000_000, 100_000_000), 0)
        row = results.budget(cases.Budget("x", ["made here"], "side 1", "ratio.cpu", "at most", 2, "x"), {"made here": seen})
        self.assertEqual((row["verdict"], row["why"]), ("met", "with 10,000,000 events"))


class Budgets(Harness):
    def verdict(self, limit, sense="at most", figure="ratio.cpu"):
        case = case_with(["a"], ["b"])
        runs = {"side 0": [Run(1, 1, 1)] * 3, "side 1": [Run(2, 2, 1)] * 3}
        seen = {"made here": results.case(case, runs, {}, (0, 0), 0)}
        return results.budget(cases.Budget("x", ["made here"], "side 1", figure, sense, limit, "x"), seen)

    def test_a_missed_budget_is_printed_as_missed(self):
        row = self.verdict(1.5)
        self.assertEqual((row["verdict"], row["ratio"]), ("MISSED", 1.333))
        self.assertIn("MISSED", report.budget_text([row]))

    def test_a_budget_that_wants_more_is_missed_by_less(self):
        self.assertEqual(self.verdict(3, "at least")["verdict"], "MISSED")
        self.assertEqual(self.verdict(2, "at least")["verdict"], "met")

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        self.assertEqual(self.verdict(1, figure="ratio.speed")["verdict"], "not measured")


class List(unittest.TestCase):
    def test_the_list_of_cases_can_be_read_for_both_kinds_of_run(self):
        full, quick = (cases.read(places.HERE / "cases.toml", quick) for quick in (False, True))
        self.assertLess({case.name for case in quick.cases}, {case.name for case in full.cases})

    def test_every_hole_of_the_list_is_filled_by_something(self):
        full = cases.read(places.HERE / "cases.toml")
        known = set(places.programs()) | set(full.peers) | {"here", "root", "work", "cache", "launch", "loop", "spans"}
        known |= {"out", "trace", "events", "operations"}
        sides = [side for case in full.cases for side in case.sides]
        texts = [text for side in sides for text in side.before + side.prefix + side.command + list(side.environment.values())]
        texts += [text for step in full.preparations.values() for text in step.command + list(step.environment.values())]
        self.assertEqual({name for text in texts for name in cases.HOLE.findall(text)} - known, set())

    def test_every_mode_of_the_loop_is_measured_on_one_two_and_four_threads(self):
        names = {case.name for case in cases.read(places.HERE / "cases.toml").cases}
        for mode in ("pread", "read", "write", "openclose", "stat", "fread", "mixed"):
            self.assertLessEqual({f"{mode}, 1 thread", f"{mode}, 2 threads", f"{mode}, 4 threads"}, names)

    def test_typing_errors_are_told_with_their_place(self):
        for wrong, sentence in {
            SMALL.replace("rounds = 8", "round = 8"): "two sides: unknown key round",
            SMALL.replace('case = "two sides"', 'case = "three sides"'): "there is no case three sides",
            SMALL.replace('group = "harness"', 'group = "speed"'): "group speed is none of",
            SMALL.replace("operations = 1000", 'sides = ["fast"]'): "there is no [under.fast]",
        }.items():
            with self.assertRaisesRegex(cases.Wrong, sentence.replace("[", r"\[")):
                plan(wrong)

    def test_a_case_is_repeated_for_each_value(self):
        text = textwrap.dedent("""
            [[case]]
            group = "harness"
            each = { a = ["x", "y"], b = ["1", "2"] }
            name = "{a}{b}"
            [[case.side]]
            name = "one"
            what = "one"
            command = ["{a}"]
            [[case.side]]
            name = "y alone"
            what = "y alone"
            only = { a = ["y"] }
            command = ["{b}", "{out}"]
        """)
        made = plan(text).cases
        self.assertEqual([case.name for case in made], ["x1", "x2", "y1", "y2"])
        self.assertEqual([len(case.sides) for case in made], [1, 1, 2, 2])
        self.assertEqual(made[3].sides[1].command, ["2", "{out}"])


class Numbers(unittest.TestCase):
    def test_numbers_have_the_figures_that_count(self):
        given = [None, 0.0, 0.00342, 0.5, 3.14159, 42.42, 271.8, 1_003_761.0, 60.0, -3.77]
        written = ["-", "0", "0.0034", "0.50", "3.14", "42.4", "272", "1,003,761", "60", "-3.77"]
        self.assertEqual([report.number(value) for value in given], written)

    def test_calls_captured_are_told_as_all_or_what_is_missing(self):
        def told(captured):
            return report.captured({"captured": {"value": captured}, "issued": {"value": 100_005}})

        self.assertEqual([told(100_005), told(100_004), told(78_500), told(0)], ["all", "all but 1", "78.5 %", "0"])


class Readme(unittest.TestCase):
    DATA = {"budgets": [], "cases": []}

    def test_a_table_is_put_between_its_markers_again_and_again(self):
        text = "before\n<!-- bench: budgets -->\nold\n<!-- bench: end -->\nafter\n"
        once = readme.filled(text, self.DATA)
        self.assertNotIn("old", once)
        self.assertTrue(once.startswith("before\n<!-- bench: budgets -->\n| budget |") and once.endswith("\nafter\n"))
        self.assertEqual(readme.filled(once, self.DATA), once)

    def test_a_later_run_takes_the_place_of_its_cases_and_is_named(self):
        def case(name, seen):
            return {"name": name, "group": "load", "sides": [], "seen": seen}

        full = {"cases": [case("a", 1), case("b", 1)], "budgets": [{"what": "x", "verdict": "met", "seen": 1}]}
        later = {
            "cases": [case("b", 2)], "load_before": 0.5, "load_after": 0.7,
            "budgets": [{"what": "x", "verdict": "not measured"}],
        }  # fmt: skip
        both = readme.merged(full, later)
        self.assertEqual([one["seen"] for one in both["cases"]], [1, 2])
        self.assertEqual(both["budgets"][0]["seen"], 1)
        named = "Summaries of large traces: a separate run, load 0.5 before, 0.7 after."
        self.assertEqual(readme.of_its_own(both["later"][0]), named)
        with self.assertRaises(readme.Wrong):
            readme.merged(full, {"cases": [case("c", 2)], "budgets": []})

    def test_a_wrong_marker_is_an_error(self):
        for text in ("none", "<!-- bench: budgets -->\n", "<!-- bench: speed -->\n<!-- bench: end -->\n"):
            with self.assertRaises(readme.Wrong):
                readme.filled(text, self.DATA)

    def test_every_case_of_the_benchmark_has_a_figure_in_the_document(self):
        listed = tomllib.loads(Path(__file__).with_name("cases.toml").read_text())["case"]
        about = {case["name"].split(",")[0] for case in listed if case.get("group") == "benchmark"}
        self.assertTrue(about and about <= set(readme.FIGURES), about)

    def test_the_document_has_markers_for_tables_that_there_are(self):
        text = (places.ROOT / "BENCHMARKS.md").read_text()
        marked = set(found[1] for found in readme.MARKED.findall(text))
        self.assertTrue(marked and marked <= set(readme.TABLES), marked)


class Guarded(unittest.TestCase):
    def test_a_tenth_more_is_allowed_and_no_more(self):
        self.assertEqual(guard.grown({"pread": 110.0}, {"pread": 100.0}), [])
        self.assertIn("11% more", guard.grown({"pread": 111.0}, {"pread": 100.0})[0])

    def test_what_the_baseline_does_not_know_is_told(self):
        self.assertIn("does not know", guard.grown({"read": 1.0}, {})[0])
        self.assertEqual(guard.grown({guard.SUMMARISED: 124.0}, {guard.SUMMARISED: 100.0}), [])
        self.assertIn("26% more", guard.grown({guard.SUMMARISED: 126.0}, {guard.SUMMARISED: 100.0})[0])

    def test_the_baseline_is_written_as_it_is_read(self):
        self.assertEqual(tomllib.loads(guard.renewed({"open and close": 12.34})), {"instructions": {"open and close": 12.3}})


if __name__ == "__main__":
    unittest.main()
