"use strict";
// A cloud of points, in 2-D or 3-D, drawn by three.js: turned, zoomed, and marked with a box or a lasso.

const VERTEX = `
attribute vec3 colour; attribute float shape; uniform float size; uniform float depth; varying vec4 tint; varying float kind;
void main() {
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
  gl_PointSize = size;
  tint = vec4(colour, depth * clamp(0.5 + 0.5 * gl_Position.z, 0.0, 1.0));
  kind = shape;
}`;
const FRAGMENT = `
uniform vec3 back; varying vec4 tint; varying float kind;
void main() {
  vec2 q = 2.0 * gl_PointCoord - 1.0;
  if (kind < 0.5 && dot(q, q) > 1.0) discard;              // a disc
  if (kind > 0.5 && kind < 1.5 && abs(q.x) > 0.5 * (q.y + 1.0)) discard;  // a triangle
  if (kind > 1.5 && max(abs(q.x), abs(q.y)) > 0.8) discard;  // a square
  gl_FragColor = vec4(mix(tint.rgb, back, tint.a), 1.0);   // what lies behind is paler
}`;
const MARGIN = { left: 54, right: 10, top: 8, bottom: 38 };
const EDGES = [0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 1, 3, 4, 6, 5, 7, 0, 4, 1, 5, 2, 6, 3, 7];

class Scatter {
  // actions: marked(indices, add), words(index) for the tip
  constructor(holder, actions) {
    this.holder = holder;
    this.actions = actions;
    this.tool = "move";
    this.n = 0;
    this.space = null;
    this.overlay = svgElement("svg", { role: "presentation" });
    this.tip = element("div", { class: "tip" });
    this.tip.hidden = true;
    try {
      // a buffer that is kept can be printed
      this.renderer = new THREE.WebGLRenderer({ antialias: false, preserveDrawingBuffer: true });
    } catch {
      holder.append(element("p", { class: "no-gl quiet" }, "This browser offers no WebGL, so points are not drawn. The numbers are below."));
      return;
    }
    this.canvas = this.renderer.domElement;
    this.canvas.tabIndex = 0;
    holder.append(this.canvas, this.overlay, this.tip);
    this.scene = new THREE.Scene();
    this.camera = new THREE.OrthographicCamera(-1, 1, 1, -1, 0.01, 40);
    this.cloud = this.points(1);
    this.marks = this.points(0);
    this.marks.material.depthTest = false;
    this.marks.renderOrder = 1;
    this.box = new THREE.LineSegments(new THREE.BufferGeometry(), new THREE.LineBasicMaterial());
    const corners = Array.from({ length: 8 }, (_, k) => [k & 1 ? 1 : -1, k & 2 ? 1 : -1, k & 4 ? 1 : -1]);
    this.box.geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(EDGES.flatMap((k) => corners[k])), 3));
    this.scene.add(this.cloud, this.marks, this.box);
    new ResizeObserver(() => this.resize()).observe(holder);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.overlay.addEventListener("pointerdown", (event) => this.brush(event));
  }

  points(depth) {
    const uniforms = { size: { value: 4 }, depth: { value: depth }, back: { value: new THREE.Vector3(1, 1, 1) } };
    const made = new THREE.Points(new THREE.BufferGeometry(), new THREE.ShaderMaterial({ uniforms, vertexShader: VERTEX, fragmentShader: FRAGMENT }));
    made.frustumCulled = false;
    return made;
  }

  // axes: two or three of {name, low, high, values (steps from 0 to 65534)}; toScale: two axes have one unit of length
  show(axes, toScale = false) {
    if (!this.renderer) return;
    const space = axes.length === 3;
    this.toScale = toScale && !space;
    this.axes = axes;
    this.n = axes[0].values.length;
    this.position = new Float32Array(3 * this.n);
    axes.forEach((axis, k) => {
      for (let i = 0; i < this.n; i++) this.position[3 * i + k] = (2 * axis.values[i]) / STEPS - 1;
    });
    this.cloud.geometry.setAttribute("position", new THREE.BufferAttribute(this.position, 3));
    this.box.visible = space;
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
    if (!this.renderer) return;
    this.colours = colours;
    this.shapes = shapes;
    const geometry = this.cloud.geometry;
    geometry.setAttribute("colour", new THREE.BufferAttribute(colours, 3, true));
    geometry.setAttribute("shape", new THREE.BufferAttribute(shapes, 1));
    this.draw();
  }

  mark(indices) {
    if (!this.renderer) return;
    this.marked = indices;
    const position = new Float32Array(3 * indices.length), tint = hexBytes(theme("--mark"));
    const colour = new Uint8Array(3 * indices.length);
    indices.forEach((i, k) => {
      position.set(this.position.subarray(3 * i, 3 * i + 3), 3 * k);
      colour.set(tint, 3 * k);
    });
    const geometry = this.marks.geometry;
    geometry.setAttribute("position", new THREE.BufferAttribute(position, 3));
    geometry.setAttribute("colour", new THREE.BufferAttribute(colour, 3, true));
    geometry.setAttribute("shape", new THREE.BufferAttribute(new Float32Array(indices.length), 1));
    this.marks.visible = indices.length > 0;
    this.holder.dataset.marked = indices.length;
    this.draw();
  }

  home() {
    if (!this.renderer) return;
    this.controls?.dispose();
    this.camera.up.set(0, this.space ? 0 : 1, this.space ? 1 : 0);
    this.camera.position.set(...(this.space ? [4.2, -6.6, 4] : [0, 0, 8]));
    this.camera.zoom = 1;
    this.camera.lookAt(0, 0, 0);
    this.controls = new THREE.OrbitControls(this.camera, this.canvas);
    this.controls.enableRotate = this.space;
    this.controls.zoomToCursor = true;
    this.controls.zoomSpeed = 1.5;
    this.controls.mouseButtons.LEFT = this.space ? THREE.MOUSE.ROTATE : THREE.MOUSE.PAN;
    this.controls.touches.ONE = this.space ? THREE.TOUCH.ROTATE : THREE.TOUCH.PAN;
    this.controls.addEventListener("change", () => this.draw());
    this.resize();
  }

  resize() {
    if (!this.renderer || !this.axes || !this.holder.clientWidth) return;
    const m = this.space ? { left: 0, right: 0, top: 0, bottom: 0 } : MARGIN;
    const width = Math.max(50, this.holder.clientWidth - m.left - m.right);
    const height = Math.max(50, this.holder.clientHeight - m.top - m.bottom);
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    if (this.width !== width || this.height !== height || this.ratio !== ratio) {
      Object.assign(this, { width, height, ratio });
      this.renderer.setPixelRatio(ratio);
      this.renderer.setSize(width, height, false);
    }
    // in shares of the frame, so that paper of another width scales points and labels alike
    const frame = [width + m.left + m.right, height + m.top + m.bottom], share = (part, whole) => `${(100 * part) / whole}%`;
    Object.assign(this.canvas.style, { left: share(m.left, frame[0]), top: share(m.top, frame[1]), width: share(width, frame[0]), height: share(height, frame[1]) });
    this.overlay.setAttribute("viewBox", `0 0 ${frame.join(" ")}`);
    let reach = this.space ? 1.72 / Math.min(1, width / height / 1.05) : 1.04;
    let wide = this.space ? (reach * width) / height : reach;
    if (this.toScale) {
      const [x, y] = this.axes.map((axis) => axis.high - axis.low || 1);
      const pixel = Math.max((reach * x) / width, (reach * y) / height);
      [wide, reach] = [(pixel * width) / x, (pixel * height) / y];
    }
    Object.assign(this.camera, { left: -wide, right: wide, top: reach, bottom: -reach });
    this.camera.updateProjectionMatrix();
    this.draw();
  }

  draw() {
    if (!this.renderer || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.render();
    });
  }

  render() {
    if (!this.axes || !this.colours || !this.width) return;
    const back = theme("--panel"), size = this.ratio * clamp(260 / Math.sqrt(this.n), 2.2, 6);
    this.renderer.setClearColor(back);
    this.box.material.color.set(theme("--line"));
    for (const [cloud, scale] of [[this.cloud, this.marked?.length ? 0.75 : 1], [this.marks, 1.35]]) {
      cloud.material.uniforms.size.value = size * scale;
      cloud.material.uniforms.depth.value = this.space ? (cloud === this.cloud ? 0.6 : 0.2) : 0;
      cloud.material.uniforms.back.value.set(...hexBytes(back).map((byte) => byte / 255));
    }
    this.renderer.render(this.scene, this.camera);
    this.label();
  }

  label() {
    const svg = this.overlay;
    svg.replaceChildren();
    if (this.space) return this.labelSpace(svg);
    const { left, top } = MARGIN, bottom = top + this.height, right = left + this.width;
    svg.append(svgElement("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }));
    const at = this.camera.position, zoom = this.camera.zoom;
    const ranges = [[at.x + this.camera.left / zoom, at.x + this.camera.right / zoom], [at.y + this.camera.bottom / zoom, at.y + this.camera.top / zoom]];
    this.axes.forEach((axis, k) => {
      const value = (w) => axis.low + ((w + 1) / 2) * (axis.high - axis.low);
      const [low, high] = ranges[k].map(value);
      for (const tick of ticks(low, high, k ? Math.max(3, this.height / 70) : Math.max(2, this.width / 80))) {
        const share = (tick - low) / (high - low || 1);
        const text = k
          ? svgElement("text", { x: left - 6, y: bottom - share * this.height + 4, "text-anchor": "end" })
          : svgElement("text", { x: left + share * this.width, y: bottom + 15, "text-anchor": "middle" });
        text.textContent = shortNumber(tick);
        svg.append(text);
      }
      const name = svgElement("text", { class: "strong", x: k ? 12 : (left + right) / 2, y: k ? top + this.height / 2 : bottom + 32, "text-anchor": "middle" });
      if (k) name.setAttribute("transform", `rotate(-90 12 ${top + this.height / 2})`);
      name.textContent = axis.name;
      svg.append(name);
    });
  }

  labelSpace(svg) {
    // each name stands at the edge of the box that is lowest on the screen; the third one at the leftmost
    const edge = (k, side, other) => [0, 1, 2].map((axis) => axis === k ? 0 : axis === (k + 1) % 3 ? side : other);
    this.axes.forEach((axis, k) => {
      const places = [-1, 1].flatMap((side) => [-1, 1].map((other) => new THREE.Vector3(...edge(k, side, other)).multiplyScalar(1.14).project(this.camera)));
      const p = places.reduce((best, place) => (k < 2 ? place.y < best.y : place.x < best.x) ? place : best);
      const half = 3.6 * axis.name.length + 2;
      const text = svgElement("text", { class: "strong", x: clamp(((p.x + 1) / 2) * this.width, half, this.width - half), y: clamp(((1 - p.y) / 2) * this.height + 4, 14, this.height - 6), "text-anchor": "middle" });
      text.textContent = axis.name;
      svg.append(text);
    });
  }

  // where the points are on the screen, in pixels of the holder
  projected() {
    this.camera.updateMatrixWorld();
    const e = this.camera.projectionMatrix.clone().multiply(this.camera.matrixWorldInverse).elements;
    const left = this.space ? 0 : MARGIN.left, top = this.space ? 0 : MARGIN.top;
    const found = new Float32Array(2 * this.n), p = this.position;
    for (let i = 0; i < this.n; i++) {
      const x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2];
      found[2 * i] = left + ((e[0] * x + e[4] * y + e[8] * z + e[12] + 1) / 2) * this.width;
      found[2 * i + 1] = top + ((1 - (e[1] * x + e[5] * y + e[9] * z + e[13])) / 2) * this.height;
    }
    return found;
  }

  place(event) {
    const frame = this.holder.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  hover(event) {
    if (event.buttons || !this.n) { this.tip.hidden = true; return; }
    const [x, y] = this.place(event), where = this.projected();
    let best = -1, least = 100;
    for (let i = 0; i < this.n; i++) {
      const d = (where[2 * i] - x) ** 2 + (where[2 * i + 1] - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    this.tip.hidden = best < 0;
    if (best < 0) return;
    this.tip.textContent = this.actions.words(best);
    this.tip.style.left = `${Math.min(x + 12, this.holder.clientWidth - this.tip.offsetWidth - 4)}px`;
    this.tip.style.top = `${Math.max(2, y - this.tip.offsetHeight - 8)}px`;
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
      const where = this.projected(), inside = [];
      for (let i = 0; i < this.n; i++) if (isInside(polygon, where[2 * i], where[2 * i + 1])) inside.push(i);
      this.actions.marked(inside, event.shiftKey);
    };
    this.overlay.addEventListener("pointermove", move);
    this.overlay.addEventListener("pointerup", end, { once: true });
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (step && this.space) this.turn(0.12 * step[0], 0.12 * step[1]);
    else if (step) {
      const pace = 0.1 / this.camera.zoom;
      for (const point of [this.camera.position, this.controls.target]) { point.x += step[0] * pace; point.y += step[1] * pace; }
    } else if (event.key === "+" || event.key === "=") this.camera.zoom *= 1.2;
    else if (event.key === "-") this.camera.zoom /= 1.2;
    else return;
    event.preventDefault();
    this.camera.updateProjectionMatrix();
    this.controls.update();
    this.draw();
  }

  turn(round, over) {
    const away = this.camera.position.clone().sub(this.controls.target);
    away.applyAxisAngle(this.camera.up, round);
    const side = away.clone().cross(this.camera.up).normalize();
    const tilted = away.clone().applyAxisAngle(side, over);
    if (Math.abs(tilted.z) < 0.995 * tilted.length()) away.copy(tilted);
    this.camera.position.copy(this.controls.target).add(away);
    this.camera.lookAt(this.controls.target);
  }
}

function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i], [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
