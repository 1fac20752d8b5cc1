#!/usr/bin/env python3
"""Checks the HTML page of a report in a real browser.

    report.py PAGE.html [--summary SUMMARY.json] [--pictures PREFIX] [--holds TEXT]...

Opens the file and fails if the page fetches anything, prints to the console, is slow or large; if headings, landmarks or names of
pictures are missing; if a table does not sort, filter or announce it; if the keyboard does not reach a value that the pointer shows; if
text from the trace became markup; or if the page without scripts shows less than its summary. PREFIX gets pictures in light, dark, on
paper and on a phone. The page must contain every TEXT.
Exit status: 0 all checks passed, 1 something is wrong, 2 the page cannot be used.
"""

import argparse
import json
import os
import pathlib
import sys

VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlio-venv"
if not sys.prefix.startswith(str(VENV)):
    python = VENV / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run {pathlib.Path(__file__).parent / 'setup.sh'} first")
    os.execv(python, [str(python), *sys.argv])

from browser import Browser  # noqa: E402

BYTES_MAX = 3_000_000
NODES_MAX = 15_000
READY_MS_MAX = 2000

# Runs before the page's own scripts: notes when the second frame after loading was drawn.
READY = """
    addEventListener("load", () => requestAnimationFrame(() => requestAnimationFrame(() => { window.readyAt = performance.now(); })));
"""

SHAPE = """(() => {
    const all = (what) => [...document.querySelectorAll(what)];
    const levels = all("h1, h2, h3, h4").map((heading) => Number(heading.tagName[1]));
    return {
        nodes: all("*").length,
        titles: levels.filter((level) => level === 1).length,
        skips: levels.some((level, at) => level > (at ? levels[at - 1] : 0) + 1),
        landmarks: ["main", "nav", "footer"].filter((name) => all(name).length !== 1),
        nameless: all('svg[role="img"]').filter((svg) => !svg.querySelector("title")).length
            + all('canvas[role="img"]').filter((canvas) => !canvas.getAttribute("aria-label")).length,
        twice: all("[id]").length - new Set(all("[id]").map((element) => element.id)).size,
        dangling: all('a[href^="#"]').filter((link) => !document.getElementById(link.getAttribute("href").slice(1))).length,
        strangers: all("img, iframe, object, embed, base, form, link:not([rel=icon])").length,
        handlers: all("*").filter((element) => [...element.attributes].some((one) => one.name.startsWith("on"))).length,
        wide: document.documentElement.scrollWidth - innerWidth,
        said: document.querySelector("#verdict")?.innerText ?? "",
    };
})()"""

# Checks every table with tools: the script redraws it unchanged, sorts it both ways, and filters it.
TABLES = """(async () => {
    const wrong = [];
    for (const box of document.querySelectorAll(".table")) {
        const filter = box.querySelector("input"), held = box.querySelector("script");
        if (!filter) continue;
        const name = held.id, body = box.querySelector("tbody");
        const cells = () => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
        const type = async (text) => {
            filter.value = text;
            filter.dispatchEvent(new Event("input"));
            await new Promise((done) => setTimeout(done, 120));
        };
        const before = JSON.stringify(cells());
        await type("");
        const after = JSON.stringify(cells());
        if (before !== after) wrong.push(`${name}: the script draws ${after.slice(0, 400)}, the page has ${before.slice(0, 400)}`);
        const columns = JSON.parse(held.textContent).columns;
        const at = columns.findIndex(([kind, values]) => kind !== "text" && new Set(values).size > 2);
        const heads = [...box.querySelectorAll("thead th")];
        if (at >= 0) {
            const values = columns[at][1].filter((value) => value !== null);
            for (const [way, best] of [["descending", (a, b) => b - a], ["ascending", (a, b) => a - b]]) {
                heads[at].querySelector("button").click();
                if (heads[at].getAttribute("aria-sort") !== way) wrong.push(`${name}: aria-sort is ${heads[at].getAttribute("aria-sort")}, not ${way}`);
                const first = [...values].sort(best)[0], shown = cells()[0][at];
                if (shown !== show(columns[at][0], first)) wrong.push(`${name}: sorted ${way} begins with ${shown}, not ${show(columns[at][0], first)}`);
            }
        }
        await type("no row holds these words");
        if (cells().length) wrong.push(`${name}: a filter that nothing passes leaves ${cells().length} rows`);
        if (!box.querySelector("[role=status]").textContent.startsWith("0 of 0 rows")) wrong.push(`${name}: the filter says ${box.querySelector("[role=status]").textContent}`);
        await type("");
    }
    return wrong;
})()"""


class Page(Browser):
    def __init__(self, path):
        super().__init__(size=(1280, 900))
        self.address = path.resolve().as_uri()

    def open(self):
        for domain in ("Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", source=READY)
        self.call("Page.navigate", url=self.address)
        self.wait_for(lambda: self.evaluate("window.readyAt ?? null") is not None, "the page did not become ready", 60)

    def press(self, key, times=1):
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)


def fetched_or_said(page):
    for event in page.events:
        method, parameters = event["method"], event.get("params", {})
        if method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if url != page.address and not url.startswith("data:"):
                yield f"{url[:200]} is fetched"
        elif method == "Runtime.consoleAPICalled":
            yield f"the console says {parameters['args']}"
        elif method == "Runtime.exceptionThrown":
            yield f"a script fails: {parameters['exceptionDetails']}"
        elif method == "Log.entryAdded":
            yield f"the browser says {parameters['entry']['text']}"


def shape(page, found):
    if found["nodes"] > NODES_MAX:
        yield f"{found['nodes']} elements"
    if found["titles"] != 1 or found["skips"]:
        yield "headings are not in order"
    for what in ("landmarks", "nameless", "twice", "dangling", "strangers", "handlers"):
        if found[what]:
            yield f"{what}: {found[what]}"
    if found["wide"] > 0:
        yield f"the page is {found['wide']} pixels wider than the window"


def by_keys(page):
    """Checks that keys show everything that the pointer shows."""
    for name, beginning in (("lanes", "at "), ("both", "at "), ("both-steps", "step")):
        if not page.evaluate(f"!!document.getElementById('{name}')"):
            continue
        page.evaluate(f"document.getElementById('{name}').focus()")
        page.press("ArrowRight", 3)
        readout = f"document.querySelector('#{name} .readout')"
        said = page.evaluate(f"{readout}.hidden ? '' : {readout}.textContent")
        if not said.startswith(beginning):
            yield f"arrow keys on {name} show {said!r}"
    if page.evaluate("!!document.getElementById('heat')"):
        page.evaluate("document.querySelector('#heat .map canvas').focus()")
        page.press("ArrowDown")
        page.press("ArrowRight", 2)
        said = page.evaluate("document.querySelector('#heat .readout').textContent")
        if "bytes moved:" not in said:
            yield f"arrow keys on the heat map show {said!r}"
        page.evaluate("document.querySelectorAll('#heat .choice button')[1].click()")
        if page.evaluate("document.querySelectorAll('#heat .choice button')[1].getAttribute('aria-pressed')") != "true":
            yield "the heat map does not say what it shows"


def against(said, summary):
    """Checks that the page contains the texts of the summary."""
    words = lambda text: " ".join(text.split())
    for sentence in summary["verdict"]:
        for part in sentence.split(": ", 1):
            if words(part).rstrip(".") not in words(said):
                yield f"the page does not say {part!r}"


def without_scripts(page, summary):
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.call("Page.reload")
    page.wait_for(lambda: page.evaluate("document.readyState") == "complete", "the page did not load again", 60)
    if page.evaluate("document.documentElement.className"):
        yield "scripts ran although they were off"
    said = page.evaluate("document.querySelector('#verdict').innerText")
    yield from (f"without scripts: {wrong}" for wrong in against(said, summary))
    if summary.get("functions") and not page.evaluate("document.querySelector('#s-functions tbody').rows.length"):
        yield "without scripts the tables are empty"
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    page.call("Page.reload")
    page.wait_for(lambda: page.evaluate("window.readyAt ?? null") is not None, "the page did not become ready", 60)


def pictures(page, prefix):
    looks = [("light", "screen", "light", (1280, 900)), ("dark", "screen", "dark", (1280, 900)),
             ("phone", "screen", "light", (390, 844)), ("paper", "print", "light", (800, 1100))]
    for name, media, scheme, (width, height) in looks:
        page.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.resize(width, height)
        if name == "phone":
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                yield f"on a phone the page is {wide} pixels wider than the screen"
        whole = page.evaluate("document.documentElement.scrollHeight")
        page.screenshot(f"{prefix}.{name}.png")
        page.resize(width, min(whole, 12_000))
        page.screenshot(f"{prefix}.{name}.whole.png")


def proved(path, options):
    summary = json.loads(options.summary.read_text()) if options.summary else {"verdict": []}
    size = path.stat().st_size
    if size > BYTES_MAX:
        yield f"{size} bytes"
    with Page(path) as page:
        page.open()
        ready = page.evaluate("window.readyAt")
        found = page.evaluate(SHAPE)
        print(f"{path}: {size / 1e6:.2f} MB, {found['nodes']} elements, ready in {ready / 1000:.2f} s")
        if ready > READY_MS_MAX:
            yield f"ready after {ready:.0f} ms"
        yield from shape(page, found)
        yield from against(found["said"], summary)
        yield from page.evaluate(TABLES)
        yield from by_keys(page)
        text = page.evaluate("document.body.textContent")
        for held in options.holds:
            if held not in text:
                yield f"{held!r} is not shown"
        yield from without_scripts(page, summary)
        if options.pictures:
            yield from pictures(page, options.pictures)
        yield from fetched_or_said(page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--summary", type=pathlib.Path)
    parser.add_argument("--pictures")
    parser.add_argument("--holds", action="append", default=[])
    options = parser.parse_args()
    if not options.page.is_file():
        print(f"{options.page}: no such file", file=sys.stderr)
        return 2
    wrong = list(proved(options.page, options))
    for complaint in wrong:
        print(f"{options.page}: {complaint}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
