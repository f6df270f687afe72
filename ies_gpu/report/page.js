"use strict";
// The page: one view per run, a slider, a table, two clouds of points, and what is marked in all of them.

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

// A column of points, unpacked when it is first looked at.
class Column {
  #values = null;
  constructor({ low, high, data, outside = 0 }, name = "") {
    Object.assign(this, { low, high, data, outside, name });
  }
  get values() {
    return this.#values ??= new Uint16Array(bytes(this.data).buffer);
  }
}

const valueOf = (column, i) => column.values[i] === MISSING ? null : column.low + (column.values[i] / STEPS) * (column.high - column.low);

// Rows of the input that are marked, in all views of all runs.
const marked = {
  rows: new Set(),
  listeners: [],
  set(rows, add) {
    this.rows = new Set(add ? [...this.rows, ...rows] : rows);
    for (const listener of this.listeners) listener();
  },
};

class Run {
  constructor(content, holder, several) {
    this.content = content;
    this.part = (name) => this.root.querySelector(name);
    this.root = document.getElementById("run").content.firstElementChild.cloneNode(true);
    holder.append(this.root);
    this.part(".run-name").textContent = content.name;
    this.part(".run-name").hidden = !several;
    for (const note of [content.thinned, ...content.notes].filter(Boolean)) this.part(".notes").append(element("p", { class: "quiet" }, note));
    this.rows = new Uint32Array(bytes(content.rows).buffer);
    this.place = new Map(Array.from(this.rows, (row, i) => [row, i]));
    this.coordinates = content.coordinates.map((column, k) => new Column(column, phi(k)));
    for (const segment of content.path) segment.regrets = new Column(segment.regrets);
    for (const volumes of content.volumes) volumes.values = new Column(volumes.values);
    this.state = { set: content.subset, zeta: content.zeta };
    this.order = { key: "loss", falling: true };
    this.marks = [];
    this.scale();
    this.colourings();
    this.build();
    this.show();
    marked.listeners.push(() => this.mark());
  }

  // --- along zeta

  scale() {
    const breaks = this.content.path.map((segment) => segment.low).filter((low) => low > 0);
    const all = breaks.length ? breaks : [this.content.zeta > 0 ? this.content.zeta : 1];
    const low = Math.log10(Math.min(...all)) - 1, high = Math.log10(Math.max(...all, this.content.zeta)) + 0.7;
    const first = 0.04; // of the slider is for zeta = 0
    this.at = (zeta) => zeta === null ? 1 : zeta <= 0 ? 0 : clamp(first + (1 - first) * ((Math.log10(zeta) - low) / (high - low)), 0, 1);
    this.at.ticks = [0, ...Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, k) => 10 ** (Math.ceil(low) + k))];
    this.zetaAt = (share) => share < first ? 0 : 10 ** (low + ((share - first) / (1 - first)) * (high - low));
  }

  segmentAt(zeta) {
    return this.content.path.find((segment) => segment.low <= zeta) ?? this.content.path.at(-1);
  }

  segmentOf(set) {
    return this.content.path.find((segment) => sameSet(segment.subset, set));
  }

  walk(zeta) {
    this.state = { set: this.segmentAt(zeta).subset, zeta };
    this.show();
  }

  // a place inside a segment: its middle on the slider, and zeta* for the chosen set
  goTo(segment) {
    if (sameSet(segment.subset, this.content.subset)) return this.walk(this.content.zeta);
    const share = (this.at(segment.low) + this.at(segment.high)) / 2, zeta = this.zetaAt(share);
    this.walk(clamp(zeta, segment.low, segment.high ?? Infinity));
  }

  step(by) {
    const now = this.content.path.indexOf(this.segmentAt(this.state.zeta)), next = this.content.path[now + by];
    if (next) this.goTo(next);
  }

  // --- what can colour the points

  colourings() {
    const content = this.content, named = (column) => ({ ...column, values: new Column(column.values) });
    this.colours = [
      { key: "volume", label: "volume of the set", of: () => this.volumes()?.values, why: "Volumes are in this page for the sets on the path and the best of the ranking." },
      { key: "regret", label: "regret of the set", of: () => this.segmentOf(this.state.set)?.regrets, why: "Regrets are known for the sets on the path only." },
    ];
    const add = (column, group) => this.colours.push({ key: `${group}${this.colours.length}`, label: column.name, classes: column.classes, joined: column.joined, of: () => column.values, group });
    const own = content.columns.map(named);
    own.forEach((column) => add(column, "your columns"));
    if (content.diagnosis) for (const column of [content.diagnosis.kinds, content.diagnosis.collapse]) add(named(column), "diagnosis");
    this.coordinates.forEach((column) => this.colours.push({ key: column.name, label: column.name, of: () => column, group: "coordinates" }));
    if (content.input) content.input.columns.map(named).forEach((column) => add(column, "input"));
    const last = this.coordinates[content.subset.at(-1)].name;
    this.colour = this.colours.filter((colour) => colour.group === "your columns")[content.opened] ?? this.colours.find((colour) => colour.key === last);
  }

  volumes() {
    return this.content.volumes.find((each) => sameSet(each.subset, this.state.set));
  }

  paint() {
    const column = this.colour.of(), n = this.rows.length, colours = new Uint8Array(3 * n), shapes = new Float32Array(n);
    const classes = this.colour.classes, grey = hexBytes(GREY), ramp = rampBytes();
    const rest = this.colour.group === "diagnosis" ? 0 : this.colour.joined ? classes.length - 1 : -1; // the class in grey
    const tints = classes?.map((_, k) => k === rest ? grey : hexBytes(classColour(this.colour.group === "diagnosis" ? k - 1 : k)));
    for (let i = 0; i < n; i++) {
      const step = column ? column.values[i] : MISSING;
      if (step === MISSING) colours.set(grey, 3 * i);
      else if (tints) {
        const k = Math.round(valueOf(column, i));
        colours.set(tints[k], 3 * i);
        shapes[i] = Math.floor(k / CLASSES.length);
      } else {
        const k = 3 * Math.round((255 * step) / STEPS);
        colours[3 * i] = ramp[k];
        colours[3 * i + 1] = ramp[k + 1];
        colours[3 * i + 2] = ramp[k + 2];
      }
    }
    this.map.paint(colours, shapes);
    this.second.paint(colours, shapes);
    this.key(column, tints);
  }

  key(column, tints) {
    const holder = this.part(".key"), classes = this.colour.classes;
    holder.replaceChildren();
    if (!column) return holder.append(element("p", {}, `Grey: nothing to colour by. ${this.colour.why}`));
    if (classes) {
      const list = element("ul", { "aria-label": this.colour.label });
      classes.forEach((name, k) => {
        const item = element("li"), mark = svgElement("svg", { viewBox: "-1 -1 2 2", "aria-hidden": "true" });
        const fill = `rgb(${tints[k].join(" ")})`, shape = Math.floor(k / CLASSES.length);
        mark.append(shape === 0 ? svgElement("circle", { r: 1, fill }) : shape === 1 ? svgElement("path", { d: "M0-1 1 1H-1z", fill }) : svgElement("rect", { x: -0.8, y: -0.8, width: 1.6, height: 1.6, fill }));
        item.append(mark, element("span", {}, name));
        list.append(item);
      });
      holder.append(list);
    } else {
      const ramp = element("div", { class: "ramp" }), ends = element("div", { class: "ends" });
      ramp.style.background = `linear-gradient(to right, ${rampStops().join(", ")})`;
      ends.append(element("span", {}, shortNumber(column.low)), element("span", {}, this.colour.label), element("span", {}, shortNumber(column.high)));
      holder.append(ramp, ends);
    }
    const outside = Math.max(0, ...(this.map.axes ?? []).map((axis) => axis.outside));
    if (outside) holder.append(element("p", {}, `${count(outside)} of the drawn points lie far outside, and are put on the border.`));
    if (column.values.includes(MISSING)) holder.append(element("p", {}, "Grey: no value."));
  }

  words(i) {
    const column = this.colour.of(), value = column && valueOf(column, i);
    const shown = value === null || value === undefined ? "no value" : this.colour.classes ? this.colour.classes[Math.round(value)] : shortNumber(value);
    return `row ${this.rows[i]} · ${this.colour.label}: ${shown}`;
  }

  // --- panels

  build() {
    const actions = { marked: (indices, add) => marked.set(indices.map((i) => this.rows[i]), add), words: (i) => this.words(i) };
    this.map = new Scatter(this.part(".map .view"), actions);
    this.second = new Scatter(this.part(".second .view"), actions);
    for (const [panel, view] of [[".map", this.map], [".second", this.second]]) this.tools(this.part(`${panel} .tools`), view);
    this.choices();
    const slider = this.part("input.zeta");
    slider.id = `zeta-${document.querySelectorAll("input.zeta").length}`;
    slider.previousElementSibling.setAttribute("for", slider.id);
    slider.addEventListener("input", () => this.walk(this.zetaAt(slider.value / 1000)));
    const steps = [["◀ set", "the set on the path for a smaller zeta", () => this.step(1)], ["ζ*", "back to the chosen set", () => this.walk(this.content.zeta)], ["set ▶", "the set on the path for a larger zeta", () => this.step(-1)]];
    this.part(".steps").append(...steps.map(([text, title, act]) => button(text, act, { title })));
    this.table();
    this.findings();
    this.ran();
    new ResizeObserver(() => this.charts()).observe(this.part(".path"));
  }

  tools(holder, view) {
    const buttons = [["move", "Move"], ["box", "Box"], ["lasso", "Lasso"]].map(([tool, text]) => button(text, () => use(tool), { title: tool === "move" ? "turn or move with the mouse, zoom with the wheel" : `mark points with a ${tool}; Shift adds`, "data-tool": tool }));
    const use = (tool) => {
      view.use(tool);
      for (const each of buttons) each.setAttribute("aria-pressed", each.dataset.tool === tool);
    };
    use("move");
    holder.append(...buttons, button("Reset", () => view.home(), { title: "back to the first view" }));
  }

  choices() {
    const groups = new Map();
    this.colours.forEach((colour) => groups.set(colour.group ?? "", [...(groups.get(colour.group ?? "") ?? []), [colour.key, colour.label]]));
    this.colourChoice = choice("Colour", groups, (key) => { this.colour = this.colours.find((each) => each.key === key); this.paint(); });
    this.colourChoice.select.value = this.colour.key;
    const axis = (k) => [String(k), phi(k)], every = new Map([["", this.coordinates.map((_, k) => axis(k))]]);
    this.axisChoices = ["x", "y", "z"].map((name, k) => choice(name, k < 2 ? every : new Map([["", [["", "none"], ...this.coordinates.map((_, j) => axis(j))]]]), () => this.axes(true)));
    const together = element("span", { class: "axes" });
    together.append(...this.axisChoices);
    this.part(".map .choices").append(this.colourChoice, together);
    const spaces = [["pair", "two coordinates"]].concat(this.content.input ? [["input", `the input${this.content.input.dimensions > 3 ? " (principal axes)" : ""}`]] : []);
    this.spaceChoice = choice("Show", new Map([["", spaces]]), () => this.showSecond());
    this.pairChoices = ["x", "y"].map((name) => choice(name, every, () => this.showSecond()));
    this.spaceChoice.select.value = this.content.input ? "input" : "pair";
    this.pairChoices[0].select.value = "0";
    this.pairChoices[1].select.value = String(Math.min(1, this.coordinates.length - 1));
    this.part(".second .choices").append(this.spaceChoice, ...this.pairChoices);
  }

  // one coordinate is drawn against another, of which it leaves a curve; of more than three the first three
  axes(asked = false) {
    if (!asked) {
      const set = this.state.set, other = this.coordinates.findIndex((_, k) => !set.includes(k));
      const shown = set.length > 1 ? set.slice(0, 3) : [set[0], Math.max(0, other)];
      this.axisChoices.forEach((each, k) => { each.select.value = shown[k] === undefined ? "" : String(shown[k]); });
    }
    const shown = this.axisChoices.map((each) => each.select.value).filter((value) => value !== "").map((k) => this.coordinates[k]);
    this.map.show(shown);
    this.map.mark(this.marks);
  }

  showSecond() {
    const input = this.spaceChoice.select.value === "input" && this.content.input;
    for (const each of this.pairChoices) each.hidden = Boolean(input);
    const axes = input ? input.axes.map((column, k) => new Column(column, input.names[k])) : this.pairChoices.map((each) => this.coordinates[each.select.value]);
    const toScale = Boolean(input) && axes.length > 1;
    if (axes.length === 1) axes.push(new Column(axes[0]));
    this.second.show(axes, toScale);
    this.second.mark(this.marks);
  }

  show() {
    const { set, zeta } = this.state;
    this.root.dataset.set = set.join(",");
    this.root.dataset.zeta = String(zeta);
    for (const each of this.root.querySelectorAll(".set")) each.textContent = setName(set);
    const slider = this.part("input.zeta");
    slider.value = Math.round(1000 * this.at(zeta));
    slider.setAttribute("aria-valuetext", `zeta ${shortNumber(zeta)}, set ${setName(set)}`);
    this.axes();
    if (!this.begun) this.showSecond();
    this.begun = true;
    this.paint();
    this.numbers();
    this.fill();
    this.charts();
  }

  numbers() {
    const { set, zeta } = this.state, segment = this.segmentOf(set), k = this.content.ranking.sets.findIndex((each) => sameSet(each, set));
    const score = segment?.score ?? this.content.ranking.scores[k], penalty = segment?.penalty ?? this.content.ranking.penalties[k];
    const name = this.content.percentile === null ? "regret" : `regret, ${this.content.percentile} %`;
    const lines = [
      ["set", setName(set) + (sameSet(set, this.content.subset) ? " ★" : ""), set.join(","), ""],
      ["ζ", shortNumber(zeta), zeta, ""],
      ["score R(S)", shortNumber(score), score, ""],
      ["loss at ζ", shortNumber(score - zeta * penalty), score - zeta * penalty, ""],
      [name, segment ? `${shortNumber(segment.regret)} ${segment.passes ? "passes" : "fails"}` : "not on the path", segment?.regret ?? "", segment ? (segment.passes ? "good" : "bad") : ""],
      ["best for ζ in", segment ? `${shortNumber(segment.low)} to ${shortNumber(segment.high)}` : "no ζ", "", ""],
    ];
    this.part(".numbers").replaceChildren(...lines.map(([label, text, value, kind]) => {
      const line = element("div"), shown = element("dd", { "data-value": value, class: kind }, text);
      line.append(element("dt", {}, label), shown);
      return line;
    }));
  }

  charts() {
    if (!this.begun) return;
    const pick = (segment) => this.goTo(segment), volumes = this.volumes();
    drawStrip(this.part(".strip"), this.content, this.state, this.at, pick);
    drawBoxes(this.part(".boxes"), this.content, this.state, pick);
    this.part(".boxes-text").textContent = "Box: quartiles; line: 5 to 95 %. From the top, the first set whose dot (the deciding percentile) is not right of zero is chosen.";
    const holder = this.part(".histogram");
    if (!volumes) holder.replaceChildren();
    else drawVolumes(holder, volumes, this.marks, (low, high, add) => {
      const inside = [];
      if (high - low > 0.002) volumes.values.values.forEach((step, i) => { if (step >= low * STEPS && step <= high * STEPS) inside.push(this.rows[i]); });
      marked.set(inside, add);
    });
    this.part(".volumes-text").textContent = volumes
      ? `Mean ${shortNumber(volumes.mean, 3)}; ${shortNumber(100 * volumes.near_zero, 3)} % of the points lie below 0.1. Drag across the bars to mark points.`
      : this.content.volumes.length > 1 ? this.colours[0].why : "This run was saved without its tangent bases, so only the chosen set has volumes. Run again with keep_bases=True for the others.";
  }

  // --- the table

  table() {
    const columns = [["rank", "#", "rank at the chosen zeta"], ["set", "set", "the coordinates"], ["score", "R(S)", "mean score, 0 is best"], ["penalty", "Σλ", "sum of the eigenvalues"], ["loss", "loss", "score minus zeta times the sum, at the current zeta"]];
    const head = element("tr");
    for (const [key, text, title] of columns) {
      const cell = element("th", { scope: "col", "data-key": key });
      cell.append(button(text, () => { this.order = { key, falling: this.order.key === key ? !this.order.falling : key === "score" || key === "loss" }; this.fill(); }, { title }));
      head.append(cell);
    }
    this.part("thead").append(head);
    const { sets, total } = this.content.ranking;
    this.part(".total").textContent = sets.length < total ? `best ${count(sets.length)} of ${count(total)}` : `${count(total)} sets`;
    this.lines = sets.map((set, k) => {
      const line = element("tr", { tabindex: "-1", "data-set": set.join(","), "data-rank": k + 1 });
      line.append(...columns.map(() => element("td")));
      line.addEventListener("click", () => this.choose(k));
      line.addEventListener("keydown", (event) => this.walkTable(event, line, k));
      return line;
    });
  }

  fill() {
    const { sets, scores, penalties } = this.content.ranking, { zeta, set } = this.state;
    const loss = scores.map((score, k) => score - zeta * penalties[k]);
    const keys = { rank: (k) => k, set: (k) => sets[k].reduce((sum, member) => sum * 1000 + member, 0), score: (k) => scores[k], penalty: (k) => penalties[k], loss: (k) => loss[k] };
    const value = keys[this.order.key], sign = this.order.falling ? -1 : 1;
    const order = sets.map((_, k) => k).sort((a, b) => sign * (value(a) - value(b)) || a - b);
    for (const cell of this.part("thead").querySelectorAll("th")) {
      if (cell.dataset.key === this.order.key) cell.setAttribute("aria-sort", this.order.falling ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    const body = this.part("tbody");
    for (const k of order) {
      const line = this.lines[k], current = sameSet(sets[k], set), cells = line.children;
      [k + 1, setName(sets[k]), shortNumber(scores[k]), shortNumber(penalties[k]), shortNumber(loss[k])].forEach((text, c) => { cells[c].textContent = text; });
      cells[2].dataset.value = scores[k];
      cells[4].dataset.value = loss[k];
      if (sameSet(sets[k], this.content.subset)) cells[1].append(element("span", { class: "badge", title: "chosen", role: "img", "aria-label": "chosen" }, "★"));
      line.setAttribute("aria-selected", current);
      line.tabIndex = current ? 0 : -1;
    }
    if (!order.every((k, place) => body.children[place] === this.lines[k])) {
      const focused = body.contains(document.activeElement) ? document.activeElement : null;
      body.replaceChildren(...order.map((k) => this.lines[k]));
      focused?.focus({ preventScroll: true });
    }
    if (!body.querySelector('[tabindex="0"]') && body.firstElementChild) body.firstElementChild.tabIndex = 0;
  }

  choose(k) {
    this.state = { ...this.state, set: this.content.ranking.sets[k] };
    this.show();
  }

  walkTable(event, line, k) {
    const next = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling, Home: line.parentElement.firstElementChild, End: line.parentElement.lastElementChild }[event.key];
    if (event.key === "Enter" || event.key === " ") this.choose(k);
    else if (next) {
      this.choose(Number(next.dataset.rank) - 1);
      next.focus();
    } else return;
    event.preventDefault();
  }

  // --- words

  findings() {
    const { stability, diagnosis } = this.content;
    this.part(".findings").hidden = !stability && !diagnosis;
    if (stability) {
      this.part(".stability").hidden = false;
      this.part(".stability .verdict").textContent = stability.verdict;
      for (const [what, shares, number] of [["Resamples", stability.bootstrap, stability.n_bootstrap], ["Refits", stability.refits, stability.n_refits]]) {
        if (!shares.length) continue;
        const lines = element("div");
        barLines(lines, shares.map((each) => [each.set, each.share]), (share) => `${Math.round(100 * share)} %`, 1);
        this.part(".shares").append(element("h4", {}, `${what} (${count(number)})`), lines);
      }
    }
    if (diagnosis) {
      this.part(".diagnosis").hidden = false;
      this.part(".diagnosis .verdict").textContent = diagnosis.verdict;
      const found = Object.entries(diagnosis.counts).filter(([, number]) => number).map(([kind, number]) => `${kind}: ${count(number)} points`);
      this.part(".diagnosis .key").textContent = found.join(" · ");
      const show = () => {
        const colour = this.colours.find((each) => each.group === "diagnosis");
        this.colour = colour;
        this.colourChoice.select.value = colour.key;
        this.state = { ...this.state, set: diagnosis.subset };
        this.show();
      };
      this.part(".diagnosis .steps").append(button("Show on the map", show));
      if (!diagnosis.clean && !this.content.columns.length) {
        this.colour = this.colours.find((each) => each.group === "diagnosis");
        this.colourChoice.select.value = this.colour.key;
      }
    }
  }

  ran() {
    const { facts, seconds, verdict, doubtful, warnings } = this.content;
    const good = { class: "quiet", style: "border-color: var(--good)" };
    if (verdict) this.part(".warnings").append(element("p", doubtful ? {} : good, `The choice is ${verdict.replace(/\.$/, "")}.`));
    for (const warning of warnings) this.part(".warnings").append(element("p", {}, `Warning: ${warning}`));
    if (!warnings.length) this.part(".warnings").append(element("p", good, "No warnings."));
    for (const [label, text] of facts) this.part(".lines").append(element("dt", {}, label), element("dd", {}, text));
    barLines(this.part(".seconds"), seconds, (value) => `${value.toFixed(2)} s`);
  }

  mark() {
    this.marks = [];
    for (const row of marked.rows) if (this.place.has(row)) this.marks.push(this.place.get(row));
    this.map.mark(this.marks);
    this.second.mark(this.marks);
    this.charts();
  }
}

function button(text, act, attributes = {}) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

function choice(text, groups, act) {
  const label = element("label", {}, text), select = element("select");
  for (const [group, options] of groups) {
    const made = options.map(([value, name]) => element("option", { value }, name));
    if (!group) select.append(...made);
    else {
      const together = element("optgroup", { label: group });
      together.append(...made);
      select.append(together);
    }
  }
  select.addEventListener("change", () => act(select.value));
  label.append(select);
  label.select = select;
  return label;
}

function themes(runs) {
  const root = document.documentElement, toggle = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const use = (name) => {
    root.dataset.theme = name;
    toggle.textContent = name === "dark" ? "Light" : "Dark";
    toggle.title = `switch to ${toggle.textContent.toLowerCase()} colours`;
    for (const run of runs) { run.paint(); run.mark(); }
  };
  toggle.addEventListener("click", () => use(root.dataset.theme === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => use(dark.matches ? "dark" : "light"));
  use(dark.matches ? "dark" : "light");
}

function bar() {
  const holder = document.getElementById("marked"), text = document.getElementById("marked-rows"), copy = document.getElementById("copy");
  const clear = () => marked.set([], false);
  marked.listeners.push(() => {
    holder.hidden = marked.rows.size === 0;
    document.getElementById("marked-count").textContent = `${count(marked.rows.size)} point${marked.rows.size === 1 ? "" : "s"} marked`;
    text.value = [...marked.rows].sort((a, b) => a - b).join(", ");
    copy.textContent = "Copy row numbers";
  });
  copy.addEventListener("click", () => {
    text.select(); // works from a file too, where the clipboard's own interface may be refused
    copy.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C";
  });
  document.getElementById("clear").addEventListener("click", clear);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") clear(); });
}

function start() {
  const content = JSON.parse(document.getElementById("content").textContent), first = content.runs[0];
  const runs = [];
  themes(runs); // before anything is drawn
  document.getElementById("title").textContent = content.title;
  document.getElementById("summary").textContent = content.runs.length > 1 ? "Two runs side by side. Points that are marked in one are marked in the other, by their row numbers." : `${setName(first.subset)} chosen from ${first.m} eigenvectors of ${count(first.n)} points, ζ = ${shortNumber(first.zeta)}`;
  document.getElementById("made").textContent = `Made by ies-gpu ${content.version}. Everything is in this file; it loads nothing from the network. Points are drawn by three.js (MIT licence).`;
  const holder = document.getElementById("runs");
  holder.classList.toggle("two", content.runs.length > 1);
  for (const run of content.runs) runs.push(new Run(run, holder, content.runs.length > 1));
  bar();
  window.report = { runs, marked }; // for the console
}

start();
