"use strict";
// Sorting, filters and values under the pointer. The page contains the same data without the script.
document.documentElement.classList.add("on");
const data = (id) => { const at = document.getElementById(id); return at ? JSON.parse(at.textContent) : null; };

// ---- numbers, formatted like units.rs ----
const scaled = (value, units) => {
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < units.length) { value /= 1000; unit++; }
  const size = Math.abs(value);
  const digits = value % 1 === 0 && (unit === 0 || size < 10) ? 0 : size < 10 ? 2 : size < 100 ? 1 : 0;
  return even(value, digits) + " " + units[unit];
};
// Rounds like Rust: halves to even. Halves are the odd multiples of 1/2, 1/4 or 1/8.
const even = (value, digits) => {
  if (Math.abs(value * 2 ** (digits + 1)) % 2 !== 1) return value.toFixed(digits);
  const power = 10 ** digits, down = Math.floor(value * power);
  return ((down % 2 ? down + 1 : down) / power).toFixed(digits);
};
const time = (ns) => {
  if (ns < 120e9) return scaled(ns, ["ns", "us", "ms", "s"]);
  const all = Math.round(ns / 1e9), hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${all % 60} s`;
};
const bytes = (size) => scaled(size, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
const percent = (part) => {
  const of = part * 100;
  return of > 0 && of < 0.1 ? "<0.1 %" : (of < 10 ? even(of, 1) : even(of, 0)) + " %";
};
const plain = (value) => value >= 100 ? grouped(even(value, 0)) : even(value, 2).replace(/\.?0+$/, "");
const moment = (ts) => new Date(Math.floor(ts / 1e6)).toISOString().replace("T", " ").replace("Z", " UTC");
const show = (kind, value) => {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  switch (kind) {
    case "time": return time(value);
    case "change": return value ? (value < 0 ? "-" : "+") + time(Math.abs(value)) : "0";
    case "bytes": return bytes(value);
    case "rate": return bytes(value) + "/s";
    case "share": return percent(value);
    case "moment": return moment(value);
    case "count": return value >= 0 && value % 1 === 0 ? grouped(value) : String(value);
    case "plain": return plain(value);
    default: return String(value);
  }
};

// ---- tables ----
for (const box of document.querySelectorAll(".table")) {
  const held = box.querySelector("script");
  if (!held) continue;
  const table = box.querySelector("table"), body = table.tBodies[0], filter = box.querySelector("input");
  const status = box.querySelector("[role=status]"), heads = [...table.tHead.rows[0].cells];
  const shown = Number(box.dataset.rows);
  let columns = null, rows = 0, order = null, most = shown;
  const load = () => {
    if (columns) return;
    const all = JSON.parse(held.textContent);
    rows = all.rows;
    columns = all.columns.map(([kind, values]) =>
      ({ kind, values: values.words ? values.at.map((at) => values.words[at]) : values }));
    order = [...Array(rows).keys()];
  };
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = columns.filter((column) => column.kind === "text").map((column) => column.values);
    const found = words.length
      ? order.filter((row) => { const text = texts.map((values) => values[row] ?? "").join(" ").toLowerCase(); return words.every((word) => text.includes(word)); })
      : order;
    const lines = found.slice(0, most).map((row) => {
      const line = document.createElement("tr");
      columns.forEach((column, at) => {
        const cell = document.createElement(at ? "td" : "th");
        if (!at) cell.scope = "row";
        if (column.kind !== "text") cell.className = column.kind === "moment" ? "n when" : "n";
        cell.textContent = show(column.kind, column.values[row]);
        line.append(cell);
      });
      return line;
    });
    body.replaceChildren(...lines);
    status.textContent = `${grouped(lines.length)} of ${grouped(found.length)} ${found.length === 1 ? "row" : "rows"}${words.length ? ` found in ${grouped(rows)}` : ""}`;
    if (found.length > lines.length) status.append(" ", more);
  };
  const more = document.createElement("button");
  more.type = "button";
  more.textContent = "100 more";
  more.addEventListener("click", () => { most += 100; draw(); });
  load();
  if (rows > shown) status.append(" ", more);
  const compare = (a, b) => {
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    return typeof a === "string" && typeof b === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a < b ? -1 : 1;
  };
  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => {
    const column = columns[at], was = head.getAttribute("aria-sort");
    const falls = was === "none" ? column.kind !== "text" : was === "ascending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const sign = falls ? -1 : 1;
    order = [...Array(rows).keys()].sort((a, b) => {
      const [x, y] = [column.values[a], column.values[b]];
      // Unknown values are last in both directions.
      return x === null || y === null ? compare(x, y) || a - b : sign * compare(x, y) || a - b;
    });
    draw();
  }));
  let due = 0;
  filter.addEventListener("input", () => { clearTimeout(due); due = setTimeout(draw, 60); });
}

// ---- a cursor over plots with one axis ----
const keys = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
const beside = (box, readout, x) => {
  const room = box.clientWidth - readout.offsetWidth;
  readout.style.left = Math.max(0, Math.min(room, x < box.clientWidth / 2 ? x + 14 : x - readout.offsetWidth - 14)) + "px";
};
for (const lanes of document.querySelectorAll(".lanes")) {
  const held = data(`${lanes.id}-data`), cursor = lanes.querySelector(".cursor"), readout = lanes.querySelector(".readout");
  const field = lanes.querySelector("svg");
  let at = -1;
  // Returns the interval that covers most of the column.
  const said = ([name, pieces]) => {
    const within = ([from, to]) => Math.min(to, (at + 1) * held.width) - Math.max(from, at * held.width);
    const longest = pieces.reduce((best, piece) => (within(piece) > (best ? within(best) : 0) ? piece : best), null);
    return `${name}: ` + (longest ? `${longest[2]}\n  ${longest[3]}` : "none");
  };
  const move = (to) => {
    at = Math.max(0, Math.min(held.columns - 1, to));
    const frame = lanes.getBoundingClientRect(), plot = field.getBoundingClientRect();
    const x = plot.left - frame.left + (at + 0.5) / held.columns * plot.width;
    cursor.hidden = readout.hidden = false;
    cursor.style.left = x + "px";
    const mark = held.marks ? held.marks[at] : `at ${time(Math.max(0, at * held.width - held.begin))}`;
    readout.textContent = [mark, ...(held.pieces || []).map(said), ...held.lanes.map(([name, kind, values]) => `${name}: ${show(kind, values[at])}`)].join("\n");
    beside(lanes, readout, x);
  };
  const leave = () => { cursor.hidden = readout.hidden = true; at = -1; };
  lanes.addEventListener("pointermove", (event) => {
    const plot = field.getBoundingClientRect(), part = (event.clientX - plot.left) / plot.width;
    if (part < 0 || part > 1) return leave();
    move(Math.floor(part * held.columns));
  });
  lanes.addEventListener("pointerleave", leave);
  lanes.addEventListener("blur", leave);
  lanes.addEventListener("focus", () => { if (lanes.matches(":focus-visible") && at < 0) move(0); });
  lanes.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave();
    if (!(event.key in keys)) return;
    event.preventDefault();
    move(at + keys[event.key]);
  });
}

// ---- heat map ----
const heat = document.getElementById("heat");
if (heat) {
  const held = data("heat-data"), canvas = heat.querySelector(".map canvas"), readout = heat.querySelector(".readout");
  const rows = held.names.length, tall = Math.max(5, Math.min(20, Math.round(420 / rows)));
  heat.querySelector(".names").classList.toggle("ends", heat.querySelectorAll(".names div").length < rows);
  canvas.style.height = heat.querySelector(".names").style.height = rows * tall + "px";
  // cividis at every eighth of its range: readable with color blindness, and in grayscale.
  const stops = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [253, 231, 55]];
  const colour = (part) => {
    const at = Math.min(7.999, part * 8), low = Math.floor(at), rest = at - low;
    return [0, 1, 2].map((of) => Math.round(stops[low][of] + rest * (stops[low + 1][of] - stops[low][of])));
  };
  const unpack = (figure) => {
    const text = atob(figure.cells), cells = new Uint16Array(rows * held.columns);
    let from = 0;
    held.spans.forEach(([first, count], row) => {
      for (let at = 0; at < count; at++, from += 2) {
        cells[row * held.columns + first + at] = text.charCodeAt(from) | text.charCodeAt(from + 1) << 8;
      }
    });
    return cells;
  };
  const figures = held.figures.map((figure) => ({ ...figure, levels: null }));
  let figure = figures[0];
  const value = (level) => level ? figure.least * Math.exp((level - 1) / 65534 * Math.log(figure.most / figure.least)) : 0;
  const bars = (svg, sums, along) => {
    const most = Math.max(...sums, 1), size = sums.length;
    svg.setAttribute("viewBox", along ? `0 0 ${size} 100` : `0 0 100 ${size}`);
    const path = document.createElementNS(svg.namespaceURI, "path");
    path.setAttribute("d", sums.map((sum, at) => {
      const length = (sum / most * 100).toFixed(1);
      return along ? `M${at} 100V${100 - length}H${at + 1}V100Z` : `M0 ${at + 0.1}H${length}V${at + 0.9}H0Z`;
    }).join(""));
    svg.replaceChildren(path);
  };
  const draw = () => {
    figure.levels ??= unpack(figure);
    const pen = canvas.getContext("2d"), image = pen.createImageData(held.columns, rows);
    const columnSums = Array(held.columns).fill(0), rowSums = Array(rows).fill(0);
    figure.levels.forEach((level, at) => {
      if (!level) return;
      const amount = value(level);
      columnSums[at % held.columns] += amount;
      rowSums[Math.floor(at / held.columns)] += amount;
      image.data.set([...colour(level / 65535), 255], at * 4);
    });
    pen.putImageData(image, 0, 0);
    bars(heat.querySelector(".top"), columnSums, true);
    bars(heat.querySelector(".right"), rowSums, false);
    for (const end of ["least", "most"]) heat.querySelector("." + end).textContent = show(figure.kind, figure[end]);
  };
  const ramp = heat.querySelector(".scale canvas").getContext("2d"), line = ramp.createImageData(256, 1);
  for (let at = 0; at < 256; at++) line.data.set([...colour(at / 255), 255], at * 4);
  ramp.putImageData(line, 0, 0);
  const choices = [...heat.querySelectorAll(".choice button")];
  choices.forEach((choice, at) => choice.addEventListener("click", () => {
    choices.forEach((other) => other.setAttribute("aria-pressed", String(other === choice)));
    figure = figures[at];
    draw();
  }));
  let cell = [0, 0];
  const move = (column, row) => {
    cell = [Math.max(0, Math.min(held.columns - 1, column)), Math.max(0, Math.min(rows - 1, row))];
    const frame = heat.getBoundingClientRect(), plot = canvas.getBoundingClientRect();
    const amount = value(figure.levels[cell[1] * held.columns + cell[0]]);
    const shown = figure.kind === "count" ? grouped(Math.round(amount)) : show(figure.kind, Math.round(amount));
    readout.textContent = `${held.names[cell[1]]}\nat ${time(Math.max(0, held.begin + cell[0] * held.width))}\n${figure.name}: ${shown}`;
    readout.hidden = false;
    readout.style.top = plot.top - frame.top + (cell[1] + 1) * plot.height / rows + 6 + "px";
    beside(heat, readout, plot.left - frame.left + (cell[0] + 0.5) / held.columns * plot.width);
  };
  canvas.addEventListener("pointermove", (event) => {
    const plot = canvas.getBoundingClientRect();
    move(Math.floor((event.clientX - plot.left) / plot.width * held.columns), Math.floor((event.clientY - plot.top) / plot.height * rows));
  });
  const leave = () => { readout.hidden = true; };
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) move(...cell); });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave();
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-Infinity, 0], End: [Infinity, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    move(cell[0] + step[0], cell[1] + step[1]);
  });
  draw();
}

// ---- print ----
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
