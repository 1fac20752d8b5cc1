"""Tests the spans of all kinds of Python code in the trace."""

import unittest

from traces import TracedTest

HEAD = """
import asyncio, os, sys, threading
from dliotrace import ai, counter, instant, set_rank, span, traced, traced_iter
"""


class Spans(TracedTest):
    def trace(self, code, status=0):
        return self.trace_code(HEAD + code, status=status)[0]

    def test_nested_spans_have_depths_and_io_lies_within(self):
        trace = self.trace("""
with span("outer", cat="pipeline"):
    with span("inner", cat="data", epoch=1, step=3):
        with open(__file__, "rb") as file:
            file.read()
""")
        depths = {row["name"]: row["depth"] for row in trace.rows("select name, depth from events where cat in ('pipeline', 'data')")}
        self.assertEqual(depths, {"outer": "0", "inner": "1"})
        within = "name = 'read' and depth = 2 and file like '%program.py'"
        self.assertGreaterEqual(trace.count(within), 1)
        self.assertEqual(trace.count("name = 'inner' and epoch = 1 and step = 3"), 1)

    def test_submodules_are_there_without_an_import_of_their_own(self):
        self.trace("""
import dliotrace
assert callable(dliotrace.torch.instrument) and callable(dliotrace.objects.install)
assert not hasattr(dliotrace, "tensorflow")
""")

    def test_metadata_of_every_type_arrives(self):
        trace = self.trace("""
class Awkward:
    def __str__(self):
        raise RuntimeError("no")
class Whole:
    def __index__(self):
        return 7
with span("s", i=1, f=0.5, t="text", b=True, n=None, raw=b"\\xff", big=2**80, odd="\\udc80", awkward=Awkward(), whole=Whole()) as s:
    s.set(late="yes")
""")
        (meta,) = trace.arguments("name = 's'")
        self.assertEqual((meta["i"], meta["f"], meta["t"], meta["b"], meta["whole"], meta["late"]), ("1", "0.5", "text", "1", "7", "yes"))
        self.assertEqual((meta["n"], meta["big"], meta["awkward"]), ("None", str(2**80), "<Awkward>"))
        self.assertIn("\ufffd", meta["raw"])
        self.assertIn("\ufffd", meta["odd"])

    def test_a_loader_that_asks_for_whole_batches_costs_no_exception(self):
        trace = self.trace("""
from dliotrace import ai
from dliotrace._engine import Items
asked = []
class Data:
    def __getitem__(self, index):
        return index
    def __getattr__(self, name):
        asked.append(name)
        raise AttributeError(name)
single = Items(Data(), ai.data.item.with_meta(a=1, b=2, c=3, worker=4), None)
assert single.__getitems__ is None and not asked
assert [single[i] for i in (5, "key", (6, 7))] == [5, "key", (6, 7)] and not hasattr(single, "other") and asked == ["other"]
assert Items(Data(), ai.data.item, sorted).__getitems__([2, 1]) == [1, 2]
""")
        five, key, pair = trace.arguments("name = 'item'")
        self.assertEqual((five["index"], key["index"], pair["count"]), ("5", "key", "2"))
        self.assertTrue(all((row["a"], row["b"], row["c"], row["worker"]) == ("1", "2", "3", "4") for row in (five, key, pair)))

    def test_names_too_long_are_cut_and_empty_ones_taken(self):
        trace = self.trace("""
with span("x" * 100_000): pass
with span(""): pass
with span("\\udcff"): pass
""")
        self.assertEqual(trace.count("cat = 'app'"), 3)
        self.assertGreater(int(trace.value("select max(length(name)) as n from events where cat = 'app'")), 1000)

    def test_a_span_is_used_again_and_within_itself(self):
        trace = self.trace("""
again = span("again", fixed=5)
for i in range(10):
    with again as one:
        one.set(i=i)
with again, again, again:
    pass
""")
        self.assertEqual(trace.count("name = 'again'"), 13)
        self.assertEqual([meta.get("i") for meta in trace.arguments("name = 'again'")][:10], list("0123456789"))
        self.assertEqual(trace.count("name = 'again' and depth = 2"), 1)
        self.assertTrue(all(meta["fixed"] == "5" for meta in trace.arguments("name = 'again'")))

    def test_metadata_finds_its_span_wherever_a_ring_goes_on(self):
        # A pair is a separate event: each pair of each span is once the last one that fits into a half of the ring,
        # and so it is in rings that are found after a kill.
        trace = self.trace("""
for child in range(8):
    if os.fork() == 0:
        for i in range(child % 4):
            instant("before")
        for i in range(3000):
            with span("many", a=1, b=2) as many:
                many.set(c=i)
        os.kill(os.getpid(), 9) if child >= 4 else os._exit(0)
for child in range(8):
    os.wait()
""")
        found = [tuple(meta.get(key) for key in "abc") for meta in trace.arguments("name = 'many'")]
        self.assertEqual(sorted(found), sorted(("1", "2", str(i)) for i in range(3000) for child in range(8)))
        self.assertEqual(trace.count("name = 'many' and tid <> pid"), 0)

    def test_a_decorated_function_is_still_the_function(self):
        trace = self.trace("""
import inspect, pickle, copy
@traced
def f(a, b=2, *c, d=4, **e):
    "doc"
    return a, b, c, d, e
class C:
    @traced
    def method(self, x): return self, x
    @traced("stat")
    @staticmethod
    def static(x): return x
    @classmethod
    @traced
    def class_(cls, x): return cls, x
assert f(1, 3, 5, d=6, z=7) == (1, 3, (5,), 6, {"z": 7})
assert (f.__name__, f.__doc__, str(inspect.signature(f))) == ("f", "doc", "(a, b=2, *c, d=4, **e)")
assert pickle.loads(pickle.dumps(f)) is f and copy.deepcopy(f) is f
c = C()
assert c.method(1) == (c, 1) and C.method(c, 2) == (c, 2) and C.static(3) == 3 and c.class_(4) == (C, 4)
try:
    traced(C)
except TypeError as error:
    assert "C" in str(error)
else:
    raise SystemExit(1)
""")
        names = {row["name"]: int(row["n"]) for row in trace.rows("select name, count(*) as n from events where cat = 'app' group by name")}
        self.assertEqual(names, {"f": 1, "C.method": 2, "stat": 1, "C.class_": 1})

    def test_exceptions_close_the_span_and_are_noted_and_their_traceback_is_untouched(self):
        trace = self.trace("""
import traceback
def plain():
    raise KeyError("x")
decorated = traced(plain)
def frames(function):
    try:
        function()
    except KeyError as error:
        return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][1:], error
plain_frames, _ = frames(plain)
traced_frames, error = frames(decorated)
assert plain_frames == traced_frames, (plain_frames, traced_frames)
assert error.args == ("x",) and error.__context__ is None and error.__cause__ is None
try:
    with span("block"):
        raise OSError(5, "no")
except OSError:
    pass
with span("after"):
    pass
""")
        self.assertEqual(trace.arguments("name = 'plain'"), [{"exception": "KeyError"}])
        self.assertEqual(trace.arguments("name = 'block'"), [{"exception": "OSError"}])
        self.assertEqual(trace.count("name = 'after' and depth = 0"), 1)

    def test_generators_have_a_span_an_item_and_unfinished_ones_leave_nothing_open(self):
        trace = self.trace("""
@traced
def numbers():
    got = yield 1
    try:
        yield got
    except ValueError:
        yield "caught"
    return "done"
def whole():
    result = yield from numbers()
    assert result == "done"
generator = whole()
assert (next(generator), generator.send(5), generator.throw(ValueError())) == (1, 5, "caught")
try:
    next(generator)
except StopIteration:
    pass
half = numbers()
next(half)
with span("while half done"):
    pass
del half
never = numbers()
""")
        self.assertEqual(trace.count("name = 'numbers'"), 5)
        self.assertEqual(trace.arguments("name = 'numbers' and args['exception'] is not null"), [])
        self.assertEqual(trace.count("name = 'while half done' and depth = 0"), 1)

    def test_coroutines_of_many_tasks_each_have_their_span_and_depth_recovers(self):
        trace = self.trace("""
@traced
async def nap(turns):
    for _ in range(turns):
        await asyncio.sleep(0)
    return turns
@traced
async def ticks(count):
    for i in range(count):
        await asyncio.sleep(0)
        yield i
@traced
async def fails():
    await asyncio.sleep(0)
    raise LookupError()
async def main():
    assert sorted(await asyncio.gather(*(nap(turns) for turns in (5, 1, 3, 2)))) == [1, 2, 3, 5]
    assert [i async for i in ticks(3)] == [0, 1, 2]
    assert [i async for i in traced_iter(ticks(2), "async items")] == [0, 1]
    async for i in ticks(10):
        break
    try:
        await fails()
    except LookupError:
        pass
asyncio.run(main())
with span("after"):
    pass
""")
        self.assertEqual(trace.count("name = 'nap'"), 4)
        self.assertEqual(trace.count("name = 'async items'"), 3)
        self.assertEqual(trace.arguments("name = 'fails'"), [{"exception": "LookupError"}])
        self.assertEqual(trace.count("name = 'after' and depth = 0"), 1)

    def test_iterations_are_counted_and_their_end_is_marked(self):
        trace = self.trace("""
items = traced_iter([10, 20, 30], "item", cat="data", epoch=2)
assert len(items) == 3
assert list(items) == [10, 20, 30]
def breaks():
    yield 1
    raise EOFError
try:
    list(traced_iter(breaks(), ai.data.item))
except EOFError:
    pass
""")
        rows = trace.rows("select name, step from events where name like 'item%' and epoch = 2 order by ts")
        steps = [(row["name"], row["step"]) for row in rows]
        self.assertEqual(steps, [("item", "0"), ("item", "1"), ("item", "2"), ("item.end", "3")])
        self.assertEqual(trace.arguments("name = 'item' and args['exception'] = 'EOFError'"), [{"exception": "EOFError"}])

    def test_threads_have_spans_of_their_own_and_ends_elsewhere_are_refused(self):
        trace = self.trace("""
shared = span("shared")
def work():
    for _ in range(1000):
        with shared:
            pass
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
wrong = span("wrong").begin()
thread = threading.Thread(target=wrong.end); thread.start(); thread.join()
with span("after"):
    pass
""")
        self.assertEqual(trace.count("name = 'shared'"), 4000)
        self.assertEqual(trace.count("name = 'wrong' and dur > 0 and ret = 0"), 0)
        self.assertEqual(trace.count("name = 'after'"), 1)

    def test_spans_that_are_never_closed_or_closed_twice_harm_nothing(self):
        trace = self.trace("""
twice = span("twice").begin()
twice.end(); twice.end()
span("never begun").end()
span("never begun").set(a=1)
kept = span("open", epoch=4).begin()
with span("within"):
    pass
os.kill(os.getpid(), 9)
""", status=-9)
        self.assertEqual(trace.count("name = 'twice'"), 1)
        self.assertEqual(trace.count("name = 'never begun'"), 0)
        self.assertEqual(trace.count("name = 'within' and depth = 1"), 1)
        self.assertEqual(trace.count("name = 'open' and epoch = 4"), 1)

    def test_instants_counters_and_ranks_arrive(self):
        trace = self.trace("""
set_rank(3, 8)
instant("mark", cat="pipeline", epoch=1, why="test")
for value in (1, 2.5):
    counter("loss", value)
""")
        self.assertEqual(trace.arguments("name = 'mark' and epoch = 1"), [{"why": "test"}])
        self.assertEqual(trace.count("name = 'loss'"), 2)
        self.assertEqual(trace.value("select max(rank) as rank from events"), "3")

    def test_a_fork_inside_a_span_ends_it_once_and_gives_the_child_its_own(self):
        trace = self.trace("""
cached = span("cached", kind="fixed")
with cached:
    with span("forking"):
        child = os.fork()
        if child == 0:
            with span("of the child"), cached:
                pass
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
""")
        self.assertEqual(trace.count("name = 'forking'"), 1)
        self.assertEqual(trace.count("name = 'of the child' and depth = 0"), 1)
        self.assertEqual(trace.count("name = 'cached'"), 2)
        self.assertEqual(trace.arguments("name = 'cached'"), [{"kind": "fixed"}] * 2)
        self.assertEqual(trace.value("select count(distinct pid) as n from events where cat = 'app'"), "2")

    def test_the_vocabulary_has_stable_categories(self):
        trace = self.trace("""
for category in (ai.compute, ai.data, ai.comm, ai.device, ai.checkpoint, ai.pipeline):
    for name, one in vars(category).items():
        if name != "category":
            with one(epoch=1):
                pass
@ai.comm.all_reduce
def f(): pass
f()
with ai.compute("attention", step=1): pass
""")
        rows = trace.rows("select cat, count(*) as n from events where epoch = 1 group by cat order by cat")
        self.assertEqual([row["cat"] for row in rows], ["checkpoint", "comm", "compute", "data", "device", "pipeline"])
        self.assertEqual(trace.count("name = 'all_reduce' and cat = 'comm'"), 2)
        self.assertEqual(trace.count("name = 'attention' and cat = 'compute' and step = 1"), 1)


if __name__ == "__main__":
    unittest.main()
