"""A headless browser, driven through its own debugging protocol.

    with Browser() as browser:
        browser.call("Page.navigate", url="file:///tmp/page.html")
        browser.evaluate("document.title")

Events from the browser are kept in `events`, once their domain is enabled.
"""

import base64
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request

import websocket

START_SECONDS = 60
ANSWER_SECONDS = 600


class Browser:
    def __init__(self, size=(1600, 1000)):
        self.size = size
        self.events = []

    def __enter__(self):
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
            self.call("Page.enable")
            self.resize(*self.size)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if getattr(self, "socket", None):
            self.socket.close()
        self.browser.terminate()
        self.browser.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def connect(self):
        port_file = pathlib.Path(self.profile) / "DevToolsActivePort"
        self.wait_for(lambda: port_file.exists() and port_file.read_text().strip(), "the browser did not start", START_SECONDS)
        port = port_file.read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self.socket = websocket.create_connection(
            page["webSocketDebuggerUrl"], suppress_origin=True, timeout=ANSWER_SECONDS
        )
        self.calls = 0

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

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
            self.events.append(message)

    def evaluate(self, script):
        """Returns the value of a script; waits for a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def settle(self):
        """Waits until drawing has finished: two consecutive pictures are equal. On a busy host the browser sometimes has no
        picture."""
        last = None
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                picture = self.call("Page.captureScreenshot", format="png")["data"]
            except RuntimeError:
                picture = None
                if time.monotonic() > end:
                    raise
            if picture is not None and (picture == last or time.monotonic() > end):
                return picture
            last = picture
            time.sleep(0.3)

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.settle()))
