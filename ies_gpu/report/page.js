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

const TRUST = { sure: "You can rely on this map", part: "What was checked holds", likely: "Probably right: look at the pictures before you rely on it", doubtful: "Do not rely on this map yet" };
const LEVEL = { sure: "good", likely: "fair", doubtful: "bad" }, SIGN = { good: "✓", fair: "!", bad: "✕", unchecked: "–" };
const HOW = { rank: "", shape: "To check it, pass diagnosis=diagnose(selection, X=X), or run ies-gpu report with --diagnose and --points.", stable: "To check it, pass stability=selection_stability(selection, X=X), or run ies-gpu report with --stability and --points." };
const levelName = (level) => level === "unchecked" ? "not checked" : level;

class Run {
  constructor(content, holder, several, link) {
    this.content = content;
    this.link = link; // tells other runs of a zeta
    this.part = (name) => this.root.querySelector(name);
    this.root = document.getElementById("run").content.firstElementChild.cloneNode(true);
    holder.append(this.root);
    this.firstSet = content.subset.map((_, k) => k);
    this.part(".run-name").textContent = content.name;
    this.part(".run-name").hidden = !several;
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

  walk(zeta, linked = false) {
    this.state = { set: this.segmentAt(zeta).subset, zeta };
    this.show();
    if (!linked) this.link(this, zeta * this.content.eigenvalues[0]);
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
      { key: "volume", label: "volume of the set", about: ` (0: a dimension is lost, 1: best${content.turned ? "; of the eigenvectors, before the map was turned" : ""})`, of: (set) => this.volumes(set)?.values, why: content.volumes.length > 1 ? "Volumes are in this page for the sets on the path and the best of the ranking." : "This run was saved without its tangent bases, so only the chosen set has volumes. Run again with keep_bases=True for the others." },
      { key: "regret", label: "regret of the set", of: () => this.segmentOf(this.state.set)?.regrets, why: "Regrets are known for the sets on the path only." },
    ];
    const add = (column, group) => this.colours.push({ ...column, key: `${group}${this.colours.length}`, label: column.name, of: () => column.values, group });
    content.columns.map(named).forEach((column) => add(column, "your columns"));
    if (content.diagnosis) for (const column of [content.diagnosis.kinds, content.diagnosis.collapse]) add(named(column), "diagnosis");
    this.coordinates.forEach((column) => this.colours.push({ key: column.name, label: column.name, of: () => column, group: "coordinates" }));
    if (content.input) content.input.columns.map(named).forEach((column) => add(column, "input"));
    const found = content.diagnosis && !content.diagnosis.clean ? this.colours.find((colour) => colour.group === "diagnosis") : null;
    this.colour = this.colours.find((colour) => colour.group === "your columns") ?? found ?? this.colours[0];
  }

  volumes(set = this.state.set) {
    return this.content.volumes.find((each) => sameSet(each.subset, set));
  }

  paint() {
    const column = this.paintView(this.map, this.state.set);
    this.key(column, this.paintView(this.first, this.beside()));
  }

  // the set by which the points of the first square are placed, or else coloured
  beside() {
    return this.firstView.select.value === "first" ? this.firstSet : this.state.set;
  }

  paintView(view, set) {
    const column = this.colour.of(set), n = this.rows.length, colours = new Uint8Array(3 * n), shapes = new Float32Array(n);
    const classes = this.colour.classes, grey = hexBytes(GREY), ramp = rampBytes(this.colour.ramp);
    const rest = this.colour.group === "diagnosis" ? 0 : this.colour.joined ? classes.length - 1 : -1; // the class in grey
    const tints = this.tints = classes?.map((_, k) => k === rest ? grey : hexBytes(classColour(this.colour.group === "diagnosis" ? k - 1 : k)));
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
    view.paint(colours, shapes);
    return column;
  }

  key(column, other) {
    const holder = this.part(".key"), classes = this.colour.classes, tints = this.tints;
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
      ramp.style.background = `linear-gradient(to right, ${rampStops(this.colour.ramp).join(", ")})`;
      ends.append(element("span", {}, shortNumber(column.low)), element("span", {}, this.colour.label + (this.colour.about ?? "")), element("span", {}, shortNumber(column.high)));
      holder.append(ramp, ends);
    }
    const outside = Math.max(0, ...(this.map.axes ?? []).map((axis) => axis.outside));
    if (outside) holder.append(element("p", {}, `${count(outside)} of the drawn points lie far outside, and are put on the border.`));
    if (!other) holder.append(element("p", {}, `First square grey: ${this.colour.why}`));
    if (column.values.includes(MISSING)) holder.append(element("p", {}, "Grey: no value."));
  }

  words(i, set) {
    const column = this.colour.of(set), value = column && valueOf(column, i);
    const shown = value === null || value === undefined ? "no value" : this.colour.classes ? this.colour.classes[Math.round(value)] : shortNumber(value);
    return `row ${this.rows[i]} · ${this.colour.label}: ${shown}`;
  }

  // --- panels

  build() {
    const actions = (set) => ({ marked: (indices, add) => marked.set(indices.map((i) => this.rows[i]), add), words: (i) => this.words(i, set()) });
    this.map = new Scatter(this.part(".map .view"), actions(() => this.state.set));
    this.first = new Scatter(this.part(".first .view"), actions(() => this.beside()));
    for (const [panel, view] of [[".map", this.map], [".first", this.first]]) this.tools(this.part(`${panel} .tools`), view);
    this.choices();
    const slider = this.part("input.zeta");
    slider.id = `zeta-${document.querySelectorAll("input.zeta").length}`;
    slider.previousElementSibling.setAttribute("for", slider.id);
    slider.addEventListener("input", () => this.walk(this.zetaAt(slider.value / 1000)));
    const steps = [["◀ set", "the set on the path for a smaller zeta", () => this.step(1)], ["ζ*", "back to the chosen set", () => this.walk(this.content.zeta, true)], ["set ▶", "the set on the path for a larger zeta", () => this.step(-1)]];
    this.part(".path .steps").append(...steps.map(([text, title, act]) => button(text, act, { title })));
    this.table();
    this.answer();
    this.questions();
    for (const [label, text] of this.content.facts) this.part(".lines").append(element("dt", {}, label), element("dd", {}, text));
    barLines(this.part(".seconds"), this.content.seconds, (value) => `${value.toFixed(2)} s`);
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
    const every = this.coordinates.map((_, k) => [String(k), phi(k)]);
    this.axisChoices = ["x", "y", "z"].map((name, k) => choice(name, [["", k < 2 ? every : [["", "none"], ...every]]], () => this.axes(true)));
    const together = element("span", { class: "axes" });
    together.append(...this.axisChoices);
    this.part(".map .choices").append(together);
    this.part(".colours .choices").append(this.colourChoice);
    const { input, subset } = this.content, spaces = [["first", "the first coordinates"]];
    if (input) spaces.push(["input", `the input${input.dimensions > 3 ? " (principal axes)" : ""}`]);
    this.firstView = choice("Show", [["", spaces]], () => { this.showFirst(); this.paint(); });
    if (input && sameSet(this.firstSet, subset)) this.firstView.select.value = "input"; // not the same twice
    this.part(".first .choices").append(this.firstView);
  }

  drawn(set) {
    return set.length > 1 ? set.slice(0, 3) : [set[0], Math.max(0, this.coordinates.findIndex((_, k) => !set.includes(k)))];
  }

  // one coordinate is drawn against another, of which it leaves a curve; of more than three the first three
  axes(asked = false) {
    if (!asked) {
      const shown = this.drawn(this.state.set);
      this.axisChoices.forEach((each, k) => { each.select.value = shown[k] === undefined ? "" : String(shown[k]); });
    }
    const shown = this.axisChoices.map((each) => each.select.value).filter((value) => value !== "").map((k) => this.coordinates[k]);
    this.map.show(shown);
    this.map.mark(this.marks);
  }

  showFirst() {
    const input = this.firstView.select.value === "input" && this.content.input, s = this.firstSet.length;
    const axes = input ? input.axes.map((column, k) => new Column(column, input.names[k])) : this.drawn(this.firstSet).map((k) => this.coordinates[k]);
    const toScale = Boolean(input) && axes.length > 1;
    if (axes.length === 1) axes.push(axes[0]);
    this.part(".first h3").textContent = input ? "The input" : `First ${["one", "two", "three"][s - 1] ?? s}: ${setName(this.firstSet)}`;
    this.first.show(axes, toScale);
    this.first.mark(this.marks);
  }

  show() {
    const { set, zeta } = this.state, chosen = sameSet(set, this.content.subset);
    this.root.dataset.set = set.join(",");
    this.root.dataset.zeta = String(zeta);
    this.root.classList.toggle("other", !chosen); // what is said about the chosen set is dimmed
    for (const each of this.root.querySelectorAll(".set")) each.textContent = setName(set);
    this.part(".map h3").textContent = `${chosen ? "Chosen" : "Shown, not chosen"}: ${setName(set)}`;
    const slider = this.part("input.zeta");
    slider.value = Math.round(1000 * this.at(zeta));
    slider.setAttribute("aria-valuetext", `zeta ${shortNumber(zeta)}, set ${setName(set)}`);
    this.axes();
    if (!this.begun) this.showFirst();
    this.begun = true;
    this.paint();
    this.numbers();
    this.fill();
    this.charts();
  }

  numbers() {
    const { set, zeta } = this.state, segment = this.segmentOf(set), k = this.content.ranking.sets.findIndex((each) => sameSet(each, set));
    const score = segment?.score ?? this.content.ranking.scores[k], penalty = segment?.penalty ?? this.content.ranking.penalties[k];
    const name = this.content.percentile === null ? "regret" : `regret, ${this.content.percentile}%`;
    const lines = [
      ["set", setName(set) + (sameSet(set, this.content.subset) ? " ★" : ""), set.join(","), ""],
      ["ζ", shortNumber(zeta), zeta, ""],
      ["score R(S)", shortNumber(score), score, ""],
      ["loss at ζ", shortNumber(score - zeta * penalty), score - zeta * penalty, ""],
      [name, segment ? `${shortNumber(segment.regret)} ${segment.passes ? "passes" : "fails"}` : "not on the path", segment?.regret ?? "", segment && !segment.passes ? "bad" : ""],
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
    const holder = this.part(".histogram");
    if (!volumes) holder.replaceChildren();
    else drawVolumes(holder, volumes, this.marks, (low, high, add) => {
      const inside = [];
      if (high - low > 0.002) volumes.values.values.forEach((step, i) => { if (step >= low * STEPS && step <= high * STEPS) inside.push(this.rows[i]); });
      marked.set(inside, add);
    });
    const about = this.part(".volumes-text");
    about.textContent = volumes
      ? `Mean ${shortNumber(volumes.mean, 3)}; ${shortNumber(100 * volumes.near_zero, 3)}% of the points lie below 0.1.${this.content.turned ? " They are of the eigenvectors, before the map was turned." : ""}`
      : this.colours[0].why;
    if (volumes) about.append(element("span", { class: "on-screen" }, " Drag across the bars to mark points."));
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
    const { sets, scores, penalties, redundant } = this.content.ranking, { zeta, set } = this.state;
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
      if (redundant[k]) cells[1].append(element("span", { class: "quiet" }, ` ${redundant[k]}`)); // why it loses rank
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

  answer() {
    const { subset, verdict, why, answers, remarks, n, m, zeta, thinned, note } = this.content;
    this.part(".chosen-set").textContent = setName(subset);
    this.part(".word").textContent = verdict ?? "not judged";
    this.part(".word").dataset.level = LEVEL[verdict] ?? "unchecked";
    const unchecked = Object.keys(answers).filter((name) => answers[name].level === "unchecked"), trust = verdict === "sure" && unchecked.length ? "part" : verdict;
    this.part(".why").textContent = `${TRUST[trust] ?? "Nothing was judged"}${why}.${unchecked.length ? ` Not checked: ${unchecked.join(", ")}.` : ""}`;
    for (const [name, { level }] of Object.entries(answers)) {
      const lamp = button(`${name[0].toUpperCase()}${name.slice(1)}: ${levelName(level)}`, () => this.lead(name), { "data-level": level, title: answers[name].text });
      lamp.prepend(element("i", { "aria-hidden": "true" }, SIGN[level]));
      this.part(".lamps").append(lamp);
    }
    for (const [kind, text] of remarks) this.part(".remarks").append(element("p", { class: kind }, `${kind[0].toUpperCase()}${kind.slice(1)}: ${text}`));
    this.part(".about").textContent = [`Chosen from ${m} eigenvectors of ${count(n)} points, ζ = ${shortNumber(zeta)}.`, thinned, note].filter(Boolean).join(" ");
  }

  lead(name) {
    if (name === "shape" && this.content.diagnosis) this.showFindings();
    else this.walk(this.content.zeta, true);
    this.part(`.${name}`).scrollIntoView({ block: "center", behavior: "smooth" });
    this.part(`.${name}`).classList.add("pointed");
    setTimeout(() => this.part(`.${name}`).classList.remove("pointed"), 1600);
  }

  questions() {
    const { answers, stability, diagnosis, subset } = this.content;
    for (const [name, { level, text }] of Object.entries(answers)) {
      const holder = this.part(`.${name} .of-chosen`), line = element("p", { class: "verdict" });
      line.append(element("b", { class: "lamp", "data-level": level }, `${SIGN[level]} ${levelName(level)}`), ` ${text || HOW[name]}`);
      holder.append(element("p", { class: "quiet" }, `About the chosen set ${setName(subset)}`), line);
    }
    if (stability) {
      const lines = element("div");
      barLines(lines, stability.shares, (share) => `${Math.round(100 * share)}%`, 1);
      this.part(".stable .of-chosen").append(element("h4", {}, `Share of refits that choose a set (${count(stability.number)})`), lines, element("p", { class: "quiet" }, stability.verdict));
    }
    if (!diagnosis) return;
    this.part(sameSet(diagnosis.subset, subset) ? ".shape .of-chosen" : ".shape").append(element("p", { class: "quiet" }, diagnosis.verdict));
    this.part(".shape .steps").append(button("Show on the map", () => this.showFindings()));
  }

  showFindings() {
    this.colour = this.colours.find((each) => each.group === "diagnosis");
    this.colourChoice.select.value = this.colour.key;
    this.state = { ...this.state, set: this.content.diagnosis.subset };
    this.show();
  }

  mark() {
    this.marks = [];
    for (const row of marked.rows) if (this.place.has(row)) this.marks.push(this.place.get(row));
    this.map.mark(this.marks);
    this.first.mark(this.marks);
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
  const now = () => root.dataset.theme;
  toggle.addEventListener("click", () => use(now() === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => use(dark.matches ? "dark" : "light"));
  let before = null; // paper is white
  addEventListener("beforeprint", () => {
    before = now();
    use("light");
    for (const run of runs) for (const view of [run.map, run.first]) view.render();
  });
  addEventListener("afterprint", () => use(before));
  use(dark.matches ? "dark" : "light");
}

function differences(content) {
  const holder = document.getElementById("differ"), head = element("tr");
  holder.hidden = content.runs.length < 2;
  head.append(...["", ...content.runs.map((run) => run.name)].map((text) => element("th", { scope: "col" }, text)));
  holder.querySelector("thead").append(head);
  if (!content.differ.length) holder.append(element("p", {}, "Nothing that is told here."));
  for (const [label, ...texts] of content.differ) {
    const line = element("tr");
    line.append(element("th", { scope: "row" }, label), ...texts.map((text) => element("td", {}, text)));
    holder.querySelector("tbody").append(line);
  }
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
  const content = JSON.parse(document.getElementById("content").textContent), runs = [];
  themes(runs); // before anything is drawn
  document.getElementById("title").textContent = content.title;
  document.getElementById("made").textContent = `Made by ies-gpu ${content.version}. Everything is in this file; it loads nothing from the network.`;
  const holder = document.getElementById("runs"), several = content.runs.length > 1;
  holder.classList.toggle("two", several);
  differences(content);
  // zeta times the first eigenvalue has no unit: there the sliders of two runs meet
  const link = (from, free) => { for (const run of runs) if (run !== from) run.walk(free / run.content.eigenvalues[0], true); };
  for (const run of content.runs) runs.push(new Run(run, holder, several, link));
  bar();
  window.report = { runs, marked }; // for the console
}

start();
