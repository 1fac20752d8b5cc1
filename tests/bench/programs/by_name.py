"""Counts calls and bytes by name with DuckDB: `by_name.py "EVENTS/*.parquet"` prints them, and the number of events."""

import sys

import duckdb

QUERY = "select name, count(*) as calls, sum(bytes) as bytes from read_parquet(?) group by name order by calls desc"


def main():
    rows = duckdb.execute(QUERY, [sys.argv[1]]).fetchall()
    for row in rows:
        print(*row)
    print(f"{sum(calls for _, calls, _ in rows)} events")


main()
