"use strict";
// A cloud of points, in 2-D or 3-D, drawn on a canvas: turned, moved, zoomed, and marked with a box or a lasso.

const MARGIN = { left: 54, right: 10, top: 8, bottom: 38 };
const CORNERS = Array.from({ length: 8 }, (_, k) => [k & 1 ? 1 : -1, k & 2 ? 1 : -1, k & 4 ? 1 : -1]);
const EDGES = CORNERS.flatMap((_, i) => [1, 2, 4].filter((bit) => !(i & bit)).map((bit) => [i, i | bit]));
const DEPTHS = 4096; // steps by which points are sorted from back to front
const FADE = 0.5; // how much paler the farthest points are
const HOME = { flat: { x: 0, y: 0, zoom: 1, round: 0, over: 0 }, space: { x: 0, y: 0, zoom: 1, round: -1.004, over: 0.474 } };
// whether a place in the square from -1 to 1 belongs to a mark: a disc, a triangle, a square
const INSIDE = [(x, y) => x * x + y * y <= 1, (x, y) => Math.abs(x) <= 0.5 * (y + 1), (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= 0.8];

class Scatter {
  // actions: marked(indices, add), words(index) for the tip
  constructor(holder, actions) {
    Object.assign(this, { holder, actions, tool: "move", n: 0, space: null, marked: [], fingers: new Map() });
    this.overlay = svgElement("svg", { role: "presentation" });
    this.tip = element("div", { class: "tip" });
    this.tip.hidden = true;
    this.canvas = element("canvas", { tabindex: 0 });
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    holder.append(this.canvas, this.overlay, this.tip);
    new ResizeObserver(() => this.resize()).observe(holder);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("pointermove", (event) => (this.fingers.size ? this.drag(event) : this.hover(event)));
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.overlay.addEventListener("pointerdown", (event) => this.brush(event));
  }

  // axes: two or three of {name, low, high, values (steps from 0 to 65534)}; toScale: two axes have one unit of length
  show(axes, toScale = false) {
    const space = axes.length === 3;
    this.toScale = toScale && !space;
    this.axes = axes;
    this.n = axes[0].values.length;
    this.position = new Float32Array(3 * this.n);
    axes.forEach((axis, k) => {
      for (let i = 0; i < this.n; i++) this.position[3 * i + k] = (2 * axis.values[i]) / STEPS - 1;
    });
    this.holder.dataset.axes = axes.map((axis) => axis.name).join(" ");
    this.canvas.setAttribute("aria-label", `Points by ${axes.map((axis) => axis.name).join(", ")}; arrow keys ${space ? "turn" : "move"}, plus and minus zoom`);
    if (space !== this.space) {
      this.space = space;
      this.home();
    }
    this.resize();
  }

  // colours: three bytes per point; shapes: 0, 1 or 2 per point
  paint(colours, shapes) {
    Object.assign(this, { colours, shapes });
    this.draw();
  }

  mark(indices) {
    this.marked = indices;
    this.holder.dataset.marked = indices.length;
    this.draw();
  }

  home() {
    this.view = { ...HOME[this.space ? "space" : "flat"] };
    this.draw();
  }

  resize() {
    if (!this.axes || !this.holder.clientWidth) return;
    const m = this.space ? { left: 0, right: 0, top: 0, bottom: 0 } : MARGIN;
    const width = Math.max(50, this.holder.clientWidth - m.left - m.right);
    const height = Math.max(50, this.holder.clientHeight - m.top - m.bottom);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (this.width !== width || this.height !== height || this.ratio !== ratio) {
      Object.assign(this, { width, height, ratio });
      Object.assign(this.canvas, { width: Math.round(ratio * width), height: Math.round(ratio * height) });
    }
    // in shares of the frame, so that paper of another width scales points and labels alike
    const frame = [width + m.left + m.right, height + m.top + m.bottom], share = (part, whole) => `${(100 * part) / whole}%`;
    Object.assign(this.canvas.style, { left: share(m.left, frame[0]), top: share(m.top, frame[1]), width: share(width, frame[0]), height: share(height, frame[1]) });
    this.overlay.setAttribute("viewBox", `0 0 ${frame.join(" ")}`);
    this.corner = [m.left, m.top];
    // half of the width and of the height that are seen at zoom 1
    const tall = this.space ? 1.72 / Math.min(1, width / height / 1.05) : 1.04;
    this.reach = [this.space ? (tall * width) / height : tall, tall];
    if (this.toScale) {
      const [x, y] = this.axes.map((axis) => axis.high - axis.low || 1);
      const pixel = Math.max((tall * x) / width, (tall * y) / height);
      this.reach = [(pixel * width) / x, (pixel * height) / y];
    }
    this.draw();
  }

  // the directions that point right, up and to the reader
  frame() {
    if (!this.space) return [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    const [c, s] = [Math.cos(this.view.round), Math.sin(this.view.round)], [a, b] = [Math.cos(this.view.over), Math.sin(this.view.over)];
    return [[-s, c, 0], [-b * c, -b * s, a], [a * c, a * s, b]];
  }

  // where places (three numbers each) are in pixels of the holder, and how near to the reader
  projected(places = this.position) {
    const [right, up, near] = this.frame(), { x, y, zoom } = this.view, n = places.length / 3;
    const across = (zoom * this.width) / 2 / this.reach[0], along = (zoom * this.height) / 2 / this.reach[1];
    const left = this.corner[0] + this.width / 2, top = this.corner[1] + this.height / 2;
    const at = new Float32Array(2 * n), depth = new Float32Array(n);
    for (let i = 0; i < n; i++) {
      const p = places[3 * i], q = places[3 * i + 1], r = places[3 * i + 2];
      at[2 * i] = left + (right[0] * p + right[1] * q + right[2] * r - x) * across;
      at[2 * i + 1] = top - (up[0] * p + up[1] * q + up[2] * r - y) * along;
      depth[i] = near[0] * p + near[1] * q + near[2] * r;
    }
    return [at, depth];
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.render();
    });
  }

  render() {
    if (!this.axes || !this.colours || !this.width || !this.n) return;
    const { context, canvas, ratio } = this, back = theme("--panel"), size = ratio * clamp(260 / Math.sqrt(this.n), 2.2, 6);
    const [at, depth] = this.projected(), pixel = (k, axis) => ratio * (at[2 * k + axis] - this.corner[axis]);
    context.fillStyle = back;
    context.fillRect(0, 0, canvas.width, canvas.height);
    if (this.space) this.drawBox();
    const image = context.getImageData(0, 0, canvas.width, canvas.height), paper = hexBytes(back);
    const stamps = INSIDE.map((inside) => stampOf(inside, this.marked.length ? 0.75 * size : size));
    const tint = [0, 0, 0];
    for (const i of this.space ? fromBackToFront(depth) : depth.keys()) {
      const pale = this.space ? (FADE * (1.74 - depth[i])) / 3.48 : 0;
      for (let c = 0; c < 3; c++) tint[c] = this.colours[3 * i + c] * (1 - pale) + paper[c] * pale;
      press(image, pixel(i, 0), pixel(i, 1), tint, stamps[this.shapes[i]]);
    }
    const [mark, disc] = [hexBytes(theme("--mark")), stampOf(INSIDE[0], 1.35 * size)];
    for (const i of this.marked) press(image, pixel(i, 0), pixel(i, 1), mark, disc);
    context.putImageData(image, 0, 0);
    this.label();
  }

  drawBox() {
    const [at] = this.projected(CORNERS.flat()), { context, ratio } = this;
    context.strokeStyle = theme("--line");
    context.lineWidth = ratio;
    context.beginPath();
    for (const [from, to] of EDGES) {
      context.moveTo(ratio * at[2 * from], ratio * at[2 * from + 1]);
      context.lineTo(ratio * at[2 * to], ratio * at[2 * to + 1]);
    }
    context.stroke();
  }

  label() {
    const svg = this.overlay;
    svg.replaceChildren();
    if (this.space) return this.labelSpace(svg);
    const { left, top } = MARGIN, bottom = top + this.height, right = left + this.width;
    svg.append(svgElement("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
    this.axes.forEach((axis, k) => {
      const middle = k ? this.view.y : this.view.x, half = this.reach[k] / this.view.zoom;
      const [low, high] = [middle - half, middle + half].map((w) => axis.low + ((w + 1) / 2) * (axis.high - axis.low));
      for (const tick of ticks(low, high, k ? Math.max(3, this.height / 70) : Math.max(2, this.width / 80))) {
        const share = (tick - low) / (high - low || 1);
        const place = k ? { x: left - 6, y: bottom - share * this.height + 4, "text-anchor": "end" } : { x: left + share * this.width, y: bottom + 15, "text-anchor": "middle" };
        svg.append(svgElement("text", place, shortNumber(tick)));
      }
      const name = svgElement("text", { class: "strong", x: k ? 12 : (left + right) / 2, y: k ? top + this.height / 2 : bottom + 32, "text-anchor": "middle" }, axis.name);
      if (k) name.setAttribute("transform", `rotate(-90 12 ${top + this.height / 2})`);
      svg.append(name);
    });
  }

  labelSpace(svg) {
    // each name stands at the edge of the box that is lowest on the screen; the third one at the leftmost
    this.axes.forEach((axis, k) => {
      const middles = [-1, 1].flatMap((side) => [-1, 1].map((other) => [0, 1, 2].map((a) => 1.14 * (a === k ? 0 : a === (k + 1) % 3 ? side : other))));
      const [at] = this.projected(middles.flat()), places = [0, 1, 2, 3].map((e) => [at[2 * e], at[2 * e + 1]]);
      const [x, y] = places.reduce((best, place) => (k < 2 ? place[1] > best[1] : place[0] < best[0]) ? place : best);
      const half = 3.6 * axis.name.length + 2;
      svg.append(svgElement("text", { class: "strong", x: clamp(x, half, this.width - half), y: clamp(y + 4, 14, this.height - 6), "text-anchor": "middle" }, axis.name));
    });
  }

  // --- mouse, fingers and keys

  place(event) {
    const frame = this.holder.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  hover(event) {
    if (!this.n || !this.width) return;
    const [x, y] = this.place(event), [at] = this.projected();
    let best = -1, least = 100;
    for (let i = 0; i < this.n; i++) {
      const d = (at[2 * i] - x) ** 2 + (at[2 * i + 1] - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    this.tip.hidden = best < 0;
    if (best < 0) return;
    this.tip.textContent = this.actions.words(best);
    this.tip.style.left = `${Math.min(x + 12, this.holder.clientWidth - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${Math.max(2, y - this.tip.offsetHeight - 8)}px`;
  }

  grab(event) {
    this.tip.hidden = true;
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, this.place(event));
  }

  // one finger turns in space and moves on a plane; the right button moves; two fingers move and zoom
  drag(event) {
    const before = this.fingers.get(event.pointerId), now = this.place(event);
    if (!before) return;
    const [dx, dy] = [now[0] - before[0], now[1] - before[1]], several = this.fingers.size > 1;
    if (several) {
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)[1], apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
      this.zoom(apart(now) / apart(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      this.move(dx / 2, dy / 2);
    } else if (this.space && event.buttons === 1 && !event.shiftKey) this.turn((-6 * dx) / this.width, (6 * dy) / this.height);
    else this.move(dx, dy);
    this.fingers.set(event.pointerId, now);
  }

  wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(-0.0015 * clamp(event.deltaY * (event.deltaMode ? 30 : 1), -300, 300)), this.place(event));
  }

  move(dx, dy) {
    this.view.x -= ((2 * dx) / this.width) * (this.reach[0] / this.view.zoom);
    this.view.y += ((2 * dy) / this.height) * (this.reach[1] / this.view.zoom);
    this.draw();
  }

  turn(round, over) {
    this.view.round += round;
    this.view.over = clamp(this.view.over + over, -1.5, 1.5);
    this.draw();
  }

  // what is at a place, in pixels of the holder, stays there
  zoom(factor, [x, y] = [this.corner[0] + this.width / 2, this.corner[1] + this.height / 2]) {
    const before = this.view.zoom, after = clamp(before * factor, 0.2, 500), gained = 1 / before - 1 / after;
    this.view.x += ((2 * (x - this.corner[0])) / this.width - 1) * this.reach[0] * gained;
    this.view.y += (1 - (2 * (y - this.corner[1])) / this.height) * this.reach[1] * gained;
    this.view.zoom = after;
    this.draw();
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (step && this.space) this.turn(0.12 * step[0], 0.12 * step[1]);
    else if (step) this.move(-0.05 * step[0] * this.width, 0.05 * step[1] * this.height);
    else if (event.key === "+" || event.key === "=") this.zoom(1.2);
    else if (event.key === "-") this.zoom(1 / 1.2);
    else return;
    event.preventDefault();
  }

  use(tool) {
    this.tool = tool;
    this.holder.classList.toggle("brushing", tool !== "move");
  }

  brush(event) {
    event.preventDefault();
    const start = this.place(event), corners = [start];
    const shape = svgElement("polygon", { class: "lasso" });
    this.overlay.append(shape);
    this.overlay.setPointerCapture(event.pointerId);
    const outline = (x, y) => this.tool === "box" ? [start, [x, start[1]], [x, y], [start[0], y]] : [...corners, [x, y]];
    let polygon = [];
    const move = (next) => {
      const [x, y] = this.place(next);
      polygon = outline(x, y);
      if (this.tool === "lasso") corners.push([x, y]);
      shape.setAttribute("points", polygon.map((p) => p.join(",")).join(" "));
    };
    const end = () => {
      this.overlay.removeEventListener("pointermove", move);
      shape.remove();
      const [at] = this.projected(), inside = [];
      for (let i = 0; i < this.n; i++) if (isInside(polygon, at[2 * i], at[2 * i + 1])) inside.push(i);
      this.actions.marked(inside, event.shiftKey);
    };
    this.overlay.addEventListener("pointermove", move);
    this.overlay.addEventListener("pointerup", end, { once: true });
  }
}

// The pixels around a point that its mark covers, [dx, dy, share of the pixel] each.
function stampOf(inside, size) {
  const half = Math.ceil(size / 2), found = [], quarters = [-0.375, -0.125, 0.125, 0.375];
  for (let y = -half; y <= half; y++) {
    for (let x = -half; x <= half; x++) {
      let covered = 0;
      for (const dy of quarters) for (const dx of quarters) {
        const [u, v] = [(2 * (x + dx)) / size, (2 * (y + dy)) / size];
        if (Math.max(Math.abs(u), Math.abs(v)) <= 1 && inside(u, v)) covered++;
      }
      if (covered) found.push([x, y, covered / 16]);
    }
  }
  return found;
}

function press({ data, width, height }, x, y, tint, stamp) {
  const column = Math.floor(x), row = Math.floor(y);
  for (const mark of stamp) {
    const p = column + mark[0], q = row + mark[1], k = 4 * (q * width + p);
    if (p < 0 || q < 0 || p >= width || q >= height) continue;
    for (let c = 0; c < 3; c++) data[k + c] += mark[2] * (tint[c] - data[k + c]);
  }
}

// Points by growing depth, sorted by counting.
function fromBackToFront(depth) {
  const step = depth.map((d) => clamp(Math.floor(((d + 1.74) / 3.48) * DEPTHS), 0, DEPTHS - 1)), next = new Uint32Array(DEPTHS + 1);
  for (const s of step) next[s + 1]++;
  for (let s = 0; s < DEPTHS; s++) next[s + 1] += next[s];
  const order = new Uint32Array(depth.length);
  step.forEach((s, i) => { order[next[s]++] = i; });
  return order;
}

function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i], [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
