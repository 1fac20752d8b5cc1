"""Rows of a query: a source for every library that reads Arrow, and an iterable of dicts."""

from dliotrace._analysis import page

# The rows that a notebook shows.
SHOWN = 20


class Rows:
    """The result of a query.

    Libraries read it without a copy in Python: ``polars.DataFrame(rows)``, ``pandas.DataFrame.from_arrow(rows)``,
    ``pyarrow.table(rows)``, ``duckdb.sql("select * from rows")``. Without a library, ``for row in rows`` yields dicts.

    Rows may be read several times: each time the query runs again.
    """

    def __init__(self, analyzer, arguments, sql):
        self._analyzer, self._arguments, self.sql = analyzer, arguments, sql
        self._started = None

    def start(self):
        """Starts the query, unless it has been started; raises TraceError if it is wrong."""
        if self._started is None:
            self._started = self._analyzer.stream([*self._arguments[0], "--sql", self.sql, *self._arguments[1]])
        return self

    @property
    def columns(self):
        """The names of the columns."""
        return [name for name, _ in self.start()._started.columns]

    def __arrow_c_schema__(self):
        return self.start()._started.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._take().__arrow_c_stream__(requested_schema)

    def __iter__(self):
        stream = self._take()
        try:
            while (rows := stream.next_rows()) is not None:
                yield from rows
        finally:
            stream.close()

    def __repr__(self):
        return f"<dliotrace.Rows of {self.sql!r}>"

    def _repr_html_(self):
        stream = self._take()
        try:
            shown, rows = [], []
            while len(shown) <= SHOWN and (rows := stream.next_rows()) is not None:
                shown.extend(rows)
            more = len(shown) > SHOWN
            return page.table(stream.columns, [row.values() for row in shown[:SHOWN]], "... and more rows" if more else "")
        finally:
            stream.close()

    def _take(self):
        """Returns a stream that has not been read, which the caller owns."""
        stream, self._started = self.start()._started, None
        return stream
