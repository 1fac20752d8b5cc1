"""Reads the events of a trace with each library, and compares their sums. ``analysis_libraries.py TRACE``."""

import sys

import duckdb
import pandas
import polars
import pyarrow

import dliotrace

trace = dliotrace.open(sys.argv[1])
frame = polars.DataFrame(trace.events())
total = frame["dur"].sum()
assert frame.schema["ts"] == polars.Datetime("ns", "UTC"), frame.schema
print(f"polars: {len(frame)} events")

table = pyarrow.table(trace.events())
assert sorted(table.column("dur").to_pylist()) == sorted(row["dur"] for row in trace.events(["dur"]))
assert table.schema.field("ts").type == pyarrow.timestamp("ns", "UTC"), table.schema
print(f"pyarrow: {len(table)} events")

columns = [name for name in trace.events().columns if name != "args"]
events = pyarrow.table(trace.events(columns)).to_pandas()
assert isinstance(events["ts"].dtype, pandas.DatetimeTZDtype) and events["dur"].sum() == total
print(f"pandas: {len(events)} events")

events = trace.events()
# DuckDB reads on threads of its own, and each query reads again.
for _ in range(2):
    [(rows, sum_of_dur)] = duckdb.sql("select count(*), sum(dur) from events").fetchall()
    assert sum_of_dur == total
print(f"duckdb: {rows} events")

try:
    polars.DataFrame(trace.sql("select cast(name as bigint) as n from events"))
except dliotrace.TraceError as error:
    assert "cast" in str(error).lower() or "convert" in str(error).lower(), error
else:
    raise AssertionError("a failing query was read")
