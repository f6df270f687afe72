"use strict";
// Elements, colours, numbers in words, and the small charts: the path, the regrets, the volumes.

const STEPS = 65534, MISSING = 65535;
const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6dcd59", "#b4de2c", "#fde725"];
// The colours of plot/style.py, safe for colour-blind readers, and others for those that are too dark for a dark page.
const CLASSES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B45AFF", "#E1004B", "#5A3C00", "#1E2D96", "#A6D854"];
const ON_DARK = {"#000000": "#BFFFDF", "#5A3C00": "#FFFF00", "#1E2D96": "#00FF9F"};
const GREY = "#a8a8a8";

function element(tag, attributes = {}, text = null) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

function svgElement(tag, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}

const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const hexBytes = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
const classColour = (k) => {
  const colour = CLASSES[k % CLASSES.length];
  return document.documentElement.dataset.theme === "dark" ? ON_DARK[colour] ?? colour : colour;
};

// the darkest colours of viridis cannot be seen on a dark page
const rampStops = (own) => own ?? VIRIDIS.slice(document.documentElement.dataset.theme === "dark" ? 2 : 0);
function rampBytes(own) {
  const bytes = new Uint8Array(3 * 256), stops = rampStops(own).map(hexBytes);
  for (let k = 0; k < 256; k++) {
    const at = (k / 255) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    for (let c = 0; c < 3; c++) bytes[3 * k + c] = Math.round(stops[low][c] + (at - low) * (stops[low + 1][c] - stops[low][c]));
  }
  return bytes;
}

const phi = (k) => "φ" + String(k + 1).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);
const setName = (subset) => `{${subset.map(phi).join(", ")}}`;
const sameSet = (a, b) => a.length === b.length && a.every((k, i) => k === b[i]);
const count = (n) => n.toLocaleString("en-US");

function shortNumber(x, digits = 4) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "∞";
  const size = Math.abs(x);
  if (x === 0 || size < 1e-14) return "0";
  return (size >= 1e5 || size < 1e-3 ? x.toExponential(digits - 2).replace(/\.?0+e/, "e") : String(Number(x.toPrecision(digits)))).replace("-", "−");
}

function ticks(low, high, most) {
  const span = high - low || 1, rough = span / most, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((k) => k * unit >= rough) || 10), found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9 * span; tick += step) found.push(Math.abs(tick) < 1e-9 * step ? 0 : tick);
  return found;
}

function chart(holder, height) {
  const width = Math.max(200, holder.clientWidth);
  const svg = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  holder.replaceChildren(svg);
  return { svg, width };
}

// The sets along zeta, on the slider's scale (at(zeta) from 0 to 1).
function drawStrip(holder, run, state, at, pick) {
  const { svg, width } = chart(holder, 54), inset = 8, x = (zeta) => inset + at(zeta) * (width - 2 * inset);
  for (const segment of run.path) {
    const from = x(segment.low), to = segment.high === null ? width - inset : x(segment.high);
    const chosen = sameSet(segment.subset, run.subset), current = sameSet(segment.subset, state.set);
    const bar = svgElement("rect", { class: `segment${chosen ? " chosen" : ""}${current ? " current" : ""}`, x: from, y: 6, width: Math.max(1, to - from), height: 26, rx: 3 });
    bar.append(svgElement("title", {}, `${setName(segment.subset)}: best for zeta from ${shortNumber(segment.low)} to ${shortNumber(segment.high)}`));
    bar.addEventListener("click", () => pick(segment));
    svg.append(bar);
    const name = setName(segment.subset);
    if (to - from > 7.2 * name.length) svg.append(svgElement("text", { class: current || chosen ? "strong" : "", x: (from + to) / 2, y: 23, "text-anchor": "middle", "pointer-events": "none" }, name));
  }
  let last = -50;
  for (const tick of at.ticks) {
    const place = x(tick);
    if (place - last < 46) continue;
    last = place;
    svg.append(svgElement("path", { class: "axis", d: `M${place} 34v4` }), svgElement("text", { x: clamp(place, 12, width - 16), y: 50, "text-anchor": "middle" }, shortNumber(tick, 2)));
  }
  const now = x(state.zeta);
  svg.append(svgElement("path", { class: "now", d: `M${now} 2v34` }));
}

// Quartiles, 5 to 95%, and the deciding percentile of the regret of each set on the path.
function drawBoxes(holder, run, state, pick) {
  const line = 21, height = run.path.length * line + 22, { svg, width } = chart(holder, height);
  const names = run.path.map((segment) => setName(segment.subset));
  const left = Math.min(0.4 * width, 14 + 7 * Math.max(...names.map((name) => name.length))), right = width - 12;
  const all = run.path.flatMap((segment) => [...segment.box, segment.regret, 0]);
  const low = Math.min(...all), high = Math.max(...all), x = (v) => left + ((v - low) / (high - low || 1)) * (right - left);
  svg.append(svgElement("path", { class: "zero", d: `M${x(0)} 0V${height - 20}` }));
  run.path.forEach((segment, k) => {
    const y = k * line + line / 2, [a, b, c, d, e] = segment.box.map(x);
    const row = svgElement("g", { class: `row${sameSet(segment.subset, state.set) ? " current" : ""}` });
    row.append(
      svgElement("rect", { x: 0, y: y - line / 2, width, height: line, fill: "transparent" }),
      svgElement("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, names[k]),
      svgElement("path", { class: "whisker", d: `M${a} ${y}H${e}` }),
      svgElement("rect", { class: "box", x: b, y: y - 6, width: Math.max(1, d - b), height: 12 }),
      svgElement("path", { class: "median", d: `M${c} ${y - 6}v12` }),
      svgElement("circle", { class: segment.passes ? "passes" : "fails", cx: x(segment.regret), cy: y, r: 4 }),
    );
    row.addEventListener("click", () => pick(segment));
    svg.append(row);
  });
  let last = -100;
  for (const tick of ticks(low, high, 4)) {
    if (x(tick) - last < 40) continue;
    last = x(tick);
    svg.append(svgElement("text", { x: clamp(x(tick), left, right - 8), y: height - 4, "text-anchor": "middle" }, shortNumber(tick, 2)));
  }
}

// Shares of points by volume; the marked points in front. pick(low, high) marks a range.
function drawVolumes(holder, volumes, marked, pick) {
  const height = 200, { svg, width } = chart(holder, height), left = 38, right = width - 8, bottom = height - 36, top = 20;
  const share = (counts) => { const total = counts.reduce((a, b) => a + b, 0) || 1; return counts.map((c) => (100 * c) / total); };
  const all = share(volumes.counts), mine = marked.length ? share(histogram(volumes.values, marked, all.length)) : [];
  const most = Math.max(...all, ...mine, 1e-9), x = (v) => left + v * (right - left), y = (v) => bottom - (v / most) * (bottom - top);
  for (const [shares, kind] of [[all, "bars"], [mine, "bars of-marked"]]) {
    const group = svgElement("g", { class: kind });
    shares.forEach((value, k) => {
      const thick = (right - left) / shares.length;
      if (value) group.append(svgElement("rect", { x: x(k / shares.length) + 0.5, y: y(value), width: Math.max(0.5, thick - 1), height: bottom - y(value) }));
    });
    svg.append(group);
  }
  svg.append(svgElement("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) svg.append(svgElement("text", { x: clamp(x(tick), left + 4, right - 6), y: bottom + 15, "text-anchor": "middle" }, String(tick)));
  for (const tick of ticks(0, most, 4)) svg.append(svgElement("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, `${shortNumber(tick, 3)}`));
  svg.append(svgElement("text", { x: left, y: 11 }, "% of points"), svgElement("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, width < 290 ? "volume (1: best)" : "volume (0: a dimension is lost, 1: best)"));
  svg.style.cursor = "crosshair";
  svg.style.touchAction = "pan-y";
  svg.addEventListener("pointerdown", (event) => {
    const value = (e) => clamp((e.clientX - svg.getBoundingClientRect().left - left) / (right - left), 0, 1);
    const from = value(event), band = svgElement("rect", { class: "lasso", y: top, height: bottom - top });
    svg.append(band);
    svg.setPointerCapture(event.pointerId);
    const move = (next) => { const to = value(next); band.setAttribute("x", x(Math.min(from, to))); band.setAttribute("width", Math.abs(x(to) - x(from))); };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerup", (next) => {
      svg.removeEventListener("pointermove", move);
      band.remove();
      const to = value(next);
      pick(Math.min(from, to), Math.max(from, to), event.shiftKey);
    }, { once: true });
  });
}

function histogram(column, indices, bins) {
  const counts = new Array(bins).fill(0);
  for (const i of indices) counts[Math.min(bins - 1, Math.floor((column.values[i] / STEPS) * bins))]++;
  return counts;
}

function barLines(holder, items, form, most = Math.max(...items.map((item) => item[1]), 1e-12)) {
  holder.replaceChildren(...items.map(([label, value]) => {
    const line = element("div", { class: "bar-line" }), bar = element("span"), fill = element("i");
    fill.style.width = `${(100 * value) / most}%`;
    bar.append(fill);
    line.append(element("span", {}, label), bar, element("span", {}, form(value)));
    return line;
  }));
}
