#!/usr/bin/env python3
"""Compares dlio with its peers: `bench.py [--quick] [--only TEXT] [--folder DIR] [--results DIR]`.

Reads cases.toml, runs every case in rounds (A B C, A B C, ...), prints each result and keeps all of them in
RESULTS/<date>-<full|quick|part>/ as results.json and results.md. If a peer is missing, crashes or hangs, the result says so, and the
measurement continues. README.md in this directory has the details.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import cases
import machine
import micro
import places
import report
import results
import traces
from runner import Runner


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes: fewer cases, fewer and shorter runs")
    parser.add_argument("--only", action="append", default=[], help="only cases with this in 'group: name'; repeatable")
    parser.add_argument("--folder", default=None, help="where data is made; a disk shows the disk (default: a temporary one)")
    parser.add_argument("--results", type=Path, default=places.target() / "bench", help="where results are kept")
    parser.add_argument("--cases", type=Path, default=places.HERE / "cases.toml", help="another list of cases")
    return parser.parse_args()


def main():
    chosen = arguments()
    # Also clean up after a signal: 100 million events take gigabytes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    clean_environment()
    plan = cases.read(chosen.cases, chosen.quick)
    places.require(places.programs())
    with tempfile.TemporaryDirectory(prefix="dlio-bench.", dir=chosen.folder) as work:
        here = places.Places(plan, work)
        kind = "part" if chosen.only else "quick" if chosen.quick else "full"
        bench = Bench(plan, here, Runner(here.values["launch"]), results.Results(kind, here, chosen.results))
        chosen_cases = [case for case in plan.cases if is_wanted(case.title, chosen.only)]
        bench.measure(chosen_cases, micro_too=is_wanted("micro: ", chosen.only), quick=chosen.quick)


def clean_environment():
    """Returns an environment without a tracer that is active in ours."""
    for name in list(os.environ):
        if name == "LD_PRELOAD" or name.startswith(("DLIO_TRACE", "DFTRACER_", "DARSHAN_ENABLE")):
            del os.environ[name]


def is_wanted(title, only):
    return not only or any(text in title for text in only)


class Bench:
    """Runs all cases in order."""

    def __init__(self, plan, here, runner, kept):
        self.plan, self.here, self.runner, self.kept = plan, here, runner, kept

    def measure(self, chosen, micro_too, quick):
        print(report.head(self.kept.data), flush=True)
        for case in chosen:
            self.kept.add(self.case(case))
            print(report.case_text(self.kept.data["cases"][-1]), flush=True)
        if micro_too:
            others, began = machine.Others(), time.monotonic()
            measured = micro.measure(quick)
            self.kept.add_micro(measured | {"busy": machine.is_busy(others.cores_taken(time.monotonic() - began))})
            print(report.micro_text(self.kept.data["micro"]), flush=True)
        self.kept.finish(self.plan.budgets)
        print(report.budget_text(self.kept.data["budgets"]))
        print(report.tail(self.kept.data, self.kept.folder), flush=True)

    def case(self, case):
        """Returns the results of each side in each round."""
        events, troubles = self.prepare(case)
        others, began = machine.Others(), time.monotonic()
        rows = {side.name: [] for side in case.sides}
        for number in range(max(self.rounds(case, side) for side in case.sides)):
            for side in case.sides:
                if number < self.rounds(case, side) and not troubles.get(side.name):
                    run = self.once(case, side, events)
                    troubles[side.name] = run.trouble
                    if not run.trouble:
                        rows[side.name].append(run)
        taken = others.cores_taken(time.monotonic() - began)
        return results.case(case, rows, troubles, (events, self.asked(case)), taken)

    def asked(self, case):
        """Returns the number of events to be read, if the disk is large enough."""
        steps = [self.plan.preparations[name].events for name in cases.needed(case)]
        return min((events for events in steps if events), default=0)

    @staticmethod
    def rounds(case, side):
        return min(case.rounds, side.rounds or case.rounds)

    def prepare(self, case):
        """Returns the events of the case's input, and the sides that cannot be measured, with the reason."""
        events, common = self.prepare_all(case.prepare)
        troubles = {}
        for side in case.sides:
            own_events, own = self.prepare_all(side.prepare)
            events = events or own_events
            troubles[side.name] = common or self.here.why_not(side.peer) or own
        return events, troubles

    def prepare_all(self, steps):
        made = [self.here.prepare(step, self.runner) for step in steps]
        events = min((events for events, _ in made if events), default=0)
        return events, next((trouble for _, trouble in made if trouble), "")

    def once(self, case, side, events):
        """Runs one side once; returns everything known about the run."""
        with places.fresh_folder(self.here.work / "run") as folder:
            more = {"out": folder, "trace": f"{folder}/trace", "events": events, "operations": int(case.operations)}
            for before in filter(None, (case.before, side.before)):
                ready = self.runner.run(self.here.fill(before, **more), {}, folder, case.limit)
                if ready.trouble:
                    return ready
            environment = self.here.fill_environment(side.environment, **more)
            command = self.here.fill(side.prefix + side.command, **more)
            run = self.runner.run(command, environment, folder, side.limit or case.limit, case.status)
            if not run.trouble:
                run.figures = results.figures(case.figures | side.figures, run.said)
                run.figures |= self.left_behind(side, more["trace"])
                run.trouble = results.unsaid(case.figures | side.figures, run.figures)
        return run

    def left_behind(self, side, folder):
        if not side.count:
            return {}
        captured = traces.events(side.count, folder, self.here.values["analyze"])
        return {"bytes": traces.size(folder), "captured": captured}


if __name__ == "__main__":
    try:
        main()
    except (cases.Wrong, places.Missing) as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: stopped; the results so far are kept")
