// The graph pane: a scene as SVG that is panned and zoomed. Of large scenes only what is in sight is in the document.

import type { Mark } from "./changes";
import { FORWARD, ROLES } from "./data";
import { html, svg } from "./elements";
import type { Point } from "./layout";
import { type Overlay, quantity, Scale } from "./overlay";
import { type Arrow, BOLD, changesIn, type Scene, type Shape, SMALL, stackOf, TITLE, widthOf } from "./scene";
import { ofOrder, push } from "./state";
import { isGroup, type Item, type Tree } from "./tree";

export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

/** What is highlighted: the shape or value looked at, and what belongs to it. */
export interface Focus {
  keys: Set<string>;
  value: number;
  partners: Set<string>;
}

export const NO_FOCUS: Focus = { keys: new Set(), value: -1, partners: new Set() };

const READABLE = 0.85; // at this scale the smallest letters have 9.35 pixels
const [LEAST, MOST] = [0.02, 4];
const [ALL, LABELS] = [500, 500]; // shapes, and labels in them, up to which all are in the document
const AFAR = 0.2; // scale below which the boxes of large drawings are plain, a few paths in all
const STEP = 1.25;
const EDGE = 40; // pixels of the pane that may stay empty around a drawing that is larger
const MAPPED = 60; // shapes from which on there is a map, where not all are in sight

export interface Listener {
  onSelect(key: string, value: number): void;
  onHover(key: string | null): void;
  onToggle(key: string): void;
  onMove(): void;
}

export class Canvas {
  readonly pane: HTMLElement;
  view: Viewport = { x: 0, y: 0, scale: 1 };
  scene: Scene = { shapes: new Map(), arrows: [], width: 0, height: 0 };
  private tree: Tree | null = null;
  overlay: Overlay | null = null; // what boxes are colored by, from the next ``show`` on
  private scale: Scale | null = null;
  private readonly svg = svg("svg", { class: "canvas", tabindex: 0, role: "application", "aria-roledescription": "drawing", "aria-label": "drawing" });
  private readonly world = svg("g");
  private readonly layers = { frames: svg("g"), arrows: svg("g", { class: "arrows" }), shapes: svg("g"), afar: svg("g", { class: "afar" }) };
  private readonly map = svg("svg", { class: "minimap", "aria-hidden": "true" });
  private readonly window = svg("rect", { class: "window" });
  private readonly drawn = new Map<string, SVGElement>();
  private readonly pointers = new Map<number, Point>();
  private focus: Focus = NO_FOCUS;
  private looked: Focus = NO_FOCUS;
  private pending = 0;
  private isNew = true; // nothing of the scene is in the document yet
  private isSmall = true; // all of the scene is in the document, always
  private isWhole = false; // all of the scene is in the document, for a moment
  private hasMoved = false;

  constructor(private readonly listener: Listener) {
    this.svg.append(arrowHeads(), this.world);
    this.world.append(this.layers.frames, this.layers.arrows, this.layers.shapes, this.layers.afar);
    this.pane = html("section", { class: "pane graph", "aria-label": "graph" }, this.svg, this.map);
    this.listen();
    new ResizeObserver(() => this.refresh()).observe(this.pane);
  }

  show(tree: Tree, scene: Scene): void {
    this.tree = tree;
    this.scene = scene;
    this.isSmall = scene.shapes.size <= ALL && labelsIn(scene) <= LABELS;
    this.measure();
    for (const element of this.drawn.values()) element.remove();
    this.drawn.clear();
    this.isNew = true;
    this.drawMap();
    this.refresh();
  }

  // -- colors -------------------------------------------------------------------------------------

  /** Color the boxes by numbers; null: by the part of the program. */
  paint(overlay: Overlay | null): void {
    this.overlay = overlay;
    this.show(this.tree!, this.scene);
  }

  private measure(): void {
    this.pane.querySelector(".scale")?.remove();
    const numbers = this.overlay === null ? [] : [...this.scene.shapes.values()].map((shape) => this.number(shape)).filter((number) => number !== null);
    this.scale = this.overlay === null || numbers.length === 0 ? null : new Scale(this.overlay, numbers);
    if (this.scale !== null) this.pane.append(this.scale.bar());
  }

  /** The number of a box: of a closed group the sum over what is in it. An open one has the color of its part. */
  private number({ item }: Shape): number | null {
    const numbers = this.overlay!.numbers;
    if (!isGroup(item)) return numbers.get(item.op?.id ?? item.value) ?? null;
    if (item.isOpen) return null;
    const ids = item.op === null ? item.ops : [item.op.id, ...item.ops];
    const known = ids.map((id) => numbers.get(id)).filter((number) => number !== undefined);
    return known.length ? known.reduce((a, b) => a + b, 0) : null;
  }

  /** The color of a box, and whether its letters are light. */
  private colored(group: SVGElement, shape: Shape): void {
    const number = this.scale === null ? null : this.number(shape);
    if (this.scale === null || (isGroup(shape.item) && shape.item.isOpen)) return;
    group.classList.add(number === null ? "unmeasured" : this.scale.isDark(number) ? "on-dark" : "on-light");
    if (number === null) return;
    for (const body of group.querySelectorAll<SVGElement>(".body")) body.style.fill = this.scale.color(number);
    group.append(svg("title", {}, `${this.scale.overlay.title}: ${quantity(number, this.scale.overlay.unit)}`));
  }

  // -- view ---------------------------------------------------------------------------------------

  get size(): { w: number; h: number } {
    return { w: this.pane.clientWidth || 800, h: this.pane.clientHeight || 600 };
  }

  /** The whole drawing; ``isReadable``: not smaller than can be read, from its top. */
  fit(isReadable = false): void {
    const { w, h } = this.size;
    const margin = Math.min(24, w / 20);
    const whole = Math.min((w - 2 * margin) / Math.max(this.scene.width, 1), (h - 2 * margin) / Math.max(this.scene.height, 1));
    const scale = Math.max(Math.min(whole, 1.25), isReadable ? READABLE : LEAST);
    const y = this.scene.height * scale <= h ? (h - this.scene.height * scale) / 2 : margin;
    this.move({ x: this.startAt(w, scale, margin), y, scale });
  }

  /** Where the left edge is: in the middle, or, if the drawing is wider than the pane, so that its first operator is in sight. */
  private startAt(w: number, scale: number, margin: number): number {
    const centered = (w - this.scene.width * scale) / 2;
    if (centered >= 0) return centered;
    const isBackward = ({ item }: Shape): number => Number(this.tree!.roleOfBox(item) !== FORWARD);
    const boxes = [...this.scene.shapes.values()].filter(({ item }) => !isGroup(item) || !item.isOpen);
    const first = boxes.sort((a, b) => isBackward(a) - isBackward(b) || a.y - b.y || a.x - b.x)[0];
    const wished = first === undefined ? margin : w / 2 - (first.x + first.w / 2) * scale;
    return Math.min(margin, Math.max(wished, w - margin - this.scene.width * scale));
  }

  zoom(factor: number, at: Point = { x: this.size.w / 2, y: this.size.h / 2 }): void {
    const scale = Math.min(Math.max(this.view.scale * factor, LEAST), MOST);
    const ratio = scale / this.view.scale;
    this.move({ x: at.x - (at.x - this.view.x) * ratio, y: at.y - (at.y - this.view.y) * ratio, scale });
  }

  pan(dx: number, dy: number): void {
    this.move({ ...this.view, x: this.view.x + dx, y: this.view.y + dy });
  }

  move(view: Viewport): void {
    this.view = view;
    this.refresh();
    this.listener.onMove();
  }

  /** Bring a shape into sight, if it is not. */
  reveal(key: string): void {
    const shape = this.scene.shapes.get(key);
    if (shape === undefined || (this.sees(key) && this.view.scale >= READABLE / 2)) return;
    const { w, h } = this.size;
    const scale = Math.max(this.view.scale, READABLE);
    const x = w / 2 - (shape.x + shape.w / 2) * scale;
    const y = h / 2 - (shape.y + Math.min(shape.h, h / 2) / 2) * scale;
    this.move({ x: within(x, w, this.scene.width * scale), y: within(y, h, this.scene.height * scale), scale });
  }

  /** Whether all of a box is in sight. */
  sees(key: string): boolean {
    const shape = this.scene.shapes.get(key);
    if (shape === undefined) return false;
    const { w, h } = this.size;
    const [left, top] = [this.view.x + shape.x * this.view.scale, this.view.y + shape.y * this.view.scale];
    return left >= 0 && top >= 0 && left + shape.w * this.view.scale <= w && top + shape.h * this.view.scale <= h;
  }

  /** The shape nearest to the middle that is also in another scene: what stays in its place between two states. */
  anchor(next: Scene, preferred: string | null): void {
    const { w, h } = this.size;
    const middle = { x: (w / 2 - this.view.x) / this.view.scale, y: (h / 2 - this.view.y) / this.view.scale };
    let best: [Shape, Shape] | null = null;
    let nearest = Infinity;
    for (const shape of this.scene.shapes.values()) {
      const other = next.shapes.get(shape.key);
      if (other === undefined || (isGroup(shape.item) && shape.item.isOpen)) continue;
      const away = shape.key === preferred ? -1 : Math.hypot(shape.x + shape.w / 2 - middle.x, shape.y + shape.h / 2 - middle.y);
      if (away < nearest) [best, nearest] = [[shape, other], away];
    }
    if (best === null) return;
    const [old, now] = best;
    this.view = { ...this.view, x: this.view.x + (old.x + old.w / 2 - now.x - now.w / 2) * this.view.scale, y: this.view.y + (old.y - now.y) * this.view.scale };
  }

  // -- drawing ------------------------------------------------------------------------------------

  private refresh(): void {
    const { x, y, scale } = this.view;
    this.world.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)}) scale(${scale.toFixed(4)})`);
    this.svg.classList.toggle("far", scale < 0.4);
    this.svg.classList.toggle("farther", scale < 0.16);
    this.placeWindow();
    if (this.isSmall && this.drawn.size > 0) return;
    if (this.isNew) this.fillSight();
    else if (this.pending === 0) this.pending = requestAnimationFrame(() => this.fillSight());
  }

  /** Do something while all of the scene is in the document, as it is seen from near by. */
  whole<T>(run: (canvas: SVGSVGElement) => T): T {
    this.svg.classList.remove("far", "farther");
    this.isWhole = true;
    this.fillSight();
    const result = run(this.svg as SVGSVGElement);
    this.isWhole = false;
    this.refresh();
    this.fillSight();
    return result;
  }

  /** Put into the document what came into sight, and take out what is far from it. */
  private fillSight(): void {
    this.pending = 0;
    this.isNew = false;
    const { w, h } = this.size;
    const margin = this.isWhole || this.isSmall ? Infinity : 0.4;
    const [left, top] = [(-w * margin - this.view.x) / this.view.scale, (-h * margin - this.view.y) / this.view.scale];
    const [right, bottom] = [(w * (1 + margin) - this.view.x) / this.view.scale, (h * (1 + margin) - this.view.y) / this.view.scale];
    const isNear = (l: number, t: number, r: number, b: number): boolean => margin === Infinity || (r >= left && l <= right && b >= top && t <= bottom);
    const isAfar = margin !== Infinity && this.view.scale < AFAR;
    this.layers.afar.setAttribute("display", isAfar ? "inline" : "none");
    const wanted = new Set<string>();
    for (const shape of isAfar ? [] : this.scene.shapes.values()) if (isNear(shape.x, shape.y, shape.x + shape.w, shape.y + shape.h)) wanted.add(this.ensure(shape.key, () => this.shape(shape)));
    for (const arrow of isAfar ? [] : this.scene.arrows) if (isNear(...arrow.box)) wanted.add(this.ensure(`→${arrow.key}`, () => this.arrow(arrow)));
    for (const [key, element] of this.drawn) {
      if (wanted.has(key)) continue;
      element.remove();
      this.drawn.delete(key);
    }
    if (this.focus !== NO_FOCUS || this.looked !== NO_FOCUS) this.mark();
  }

  private ensure(key: string, make: () => SVGElement): string {
    if (!this.drawn.has(key)) this.drawn.set(key, make());
    return key;
  }

  private shape(shape: Shape): SVGElement {
    const { item, key } = shape;
    const tree = this.tree!;
    const isFrame = isGroup(item) && item.isOpen;
    const mark = item.op === null ? null : (tree.changes.ops.get(item.op.id) ?? null);
    const counts = isGroup(item) ? changesIn(tree, item) : new Map<string, number>();
    const role = tree.roleOfBox(item);
    const kind = isGroup(item) ? `group ${item.kind}` : item.kind;
    const whole = mark ?? wholeMark(item, counts);
    const derivative = item.op === null || isGroup(item) ? 0 : tree.stateOf(item.op).derivative(item.op);
    const classes = ["shape", kind, ROLES[role], derivative > 1 ? `order-${Math.min(derivative, 3)}` : "", whole ?? "", isFrame ? "open" : "", whole === null && counts.size > 0 && !isFrame ? "touched" : ""].filter(Boolean);
    const group = svg("g", { class: classes.join(" "), "data-key": key, transform: `translate(${shape.x.toFixed(1)} ${shape.y.toFixed(1)})`, role: isGroup(item) ? "group" : "img" });
    group.setAttribute("aria-label", described(shape, ROLES[role]! + ofOrder(derivative), mark, counts));
    const radius = !isGroup(item) && item.op === null ? Math.min(shape.h / 2, 14) : 6;
    const stack = stackOf(item);
    const [width, height] = [shape.w - stack, shape.h - stack];
    for (const off of stack ? [stack, stack / 2] : []) group.append(svg("rect", { class: "body under", x: off, y: off, width, height, rx: radius }));
    group.append(svg("rect", { class: "body", width, height, rx: radius }));
    if (isGroup(item)) group.append(toggle(isFrame, shape.title));
    group.append(...labels(shape, isFrame));
    this.colored(group, shape);
    const badge = badgeOf(mark, counts, isFrame);
    // Arrows come in at the middle: what is written above the box is to the right of them.
    const edge = Math.max(shape.w - 4, shape.w / 2 + 8 + widthOf(badge, SMALL) * BOLD);
    if (badge) group.append(svg("text", { class: `badge ${whole ?? "mixed"}`, x: edge, y: -4, "text-anchor": "end", "font-size": SMALL }, badge));
    (isFrame ? this.layers.frames : this.layers.shapes).append(group);
    return group;
  }

  private arrow(arrow: Arrow): SVGElement {
    const path = svg("path", { class: `arrow ${arrow.kind}`, d: curve(arrow.points, arrow.kind === "saved"), "data-value": [...arrow.values][0]! });
    this.layers.arrows.append(path);
    return path;
  }

  // -- highlights ---------------------------------------------------------------------------------

  highlight(focus: Focus): void {
    this.focus = focus;
    this.mark();
  }

  look(focus: Focus): void {
    this.looked = focus;
    this.mark();
  }

  private mark(): void {
    const now = this.looked === NO_FOCUS ? this.focus : this.looked;
    const [producers, consumers] = [new Set<string>(), new Set<string>()];
    for (const arrow of this.scene.arrows) {
      const [isOut, isIn] = [meets(arrow.sources, now.keys), meets(arrow.targets, now.keys)];
      const isValue = arrow.values.has(now.value);
      const isOn = isValue || isOut || isIn;
      if (isOn) for (const key of arrow.targets) if (isOut || isValue) consumers.add(key);
      if (isOn) for (const key of arrow.sources) if (isIn || isValue) producers.add(key);
      const element = this.drawn.get(`→${arrow.key}`);
      element?.classList.toggle("on", isOn);
      if (isOn && element !== undefined && element.nextSibling !== null && this.looked === NO_FOCUS) this.layers.arrows.append(element);
    }
    for (const [key, element] of this.drawn) {
      if (key.startsWith("→")) continue;
      element.classList.toggle("selected", this.focus.keys.has(key));
      element.classList.toggle("producer", producers.has(key) && !now.keys.has(key));
      element.classList.toggle("consumer", consumers.has(key) && !now.keys.has(key));
      element.classList.toggle("partner", now.partners.has(key));
    }
    this.svg.classList.toggle("focused", now.keys.size > 0 || now.value >= 0);
  }

  // -- minimap ------------------------------------------------------------------------------------

  private drawMap(): void {
    this.map.replaceChildren();
    this.layers.afar.replaceChildren();
    if (this.scene.shapes.size < MAPPED) return;
    const { w, h } = this.size;
    const [width, height] = [Math.min(120, w / 5), Math.min(Math.max(this.scene.height / this.scene.width, 0.4) * 120, 0.32 * h)];
    this.map.style.width = `${width}px`;
    this.map.style.height = `${height}px`;
    this.map.setAttribute("preserveAspectRatio", "none");
    this.map.setAttribute("viewBox", `0 0 ${this.scene.width} ${this.scene.height}`);
    const byClass = new Map<string, string[]>(); // also by color, where there is an overlay
    for (const shape of this.scene.shapes.values()) {
      if (isGroup(shape.item) && shape.item.isOpen) continue;
      const role = this.tree!.roleOfBox(shape.item);
      const number = this.scale === null ? null : this.number(shape);
      const name = number !== null ? this.scale!.color(number) : (shape.item.op && this.tree!.changes.ops.get(shape.item.op.id)) || ROLES[role]!;
      const d = `M${shape.x.toFixed(0)} ${shape.y.toFixed(0)}h${shape.w.toFixed(0)}v${shape.h.toFixed(0)}h${(-shape.w).toFixed(0)}z`;
      push(byClass, name, d);
    }
    for (const [name, parts] of byClass) {
      const look: Record<string, string> = name.startsWith("#") ? { fill: name } : { class: name };
      this.map.append(svg("path", { ...look, d: parts.join("") }));
      if (!this.isSmall) this.layers.afar.append(svg("path", { ...look, d: parts.join("") }));
    }
    this.map.append(this.window);
    this.placeWindow();
  }

  private placeWindow(): void {
    const { w, h } = this.size;
    const isAll = this.view.x >= 0 && this.view.y >= 0 && this.view.x + this.scene.width * this.view.scale <= w && this.view.y + this.scene.height * this.view.scale <= h;
    this.map.classList.toggle("idle", this.scene.shapes.size < MAPPED || isAll);
    this.window.setAttribute("x", String(-this.view.x / this.view.scale));
    this.window.setAttribute("y", String(-this.view.y / this.view.scale));
    this.window.setAttribute("width", String(w / this.view.scale));
    this.window.setAttribute("height", String(h / this.view.scale));
  }

  private jump(event: PointerEvent): void {
    const rect = this.map.getBoundingClientRect();
    const [x, y] = [((event.clientX - rect.left) / rect.width) * this.scene.width, ((event.clientY - rect.top) / rect.height) * this.scene.height];
    this.move({ ...this.view, x: this.size.w / 2 - x * this.view.scale, y: this.size.h / 2 - y * this.view.scale });
  }

  // -- mouse and fingers --------------------------------------------------------------------------

  private listen(): void {
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this.press(event));
    this.svg.addEventListener("pointermove", (event) => this.drag(event));
    for (const name of ["pointerup", "pointercancel"] as const) this.svg.addEventListener(name, (event) => this.release(event));
    this.svg.addEventListener("pointerover", (event) => this.listener.onHover(keyAt(event.target)));
    this.svg.addEventListener("pointerleave", () => this.listener.onHover(null));
    this.svg.addEventListener("click", (event) => event.detail === 0 && this.choose(event)); // by a screen reader; a mouse presses and releases
    this.svg.addEventListener("dblclick", (event) => {
      const key = keyAt(event.target);
      if (key !== null) this.listener.onToggle(key);
    });
    this.map.addEventListener("pointerdown", (event) => {
      this.map.setPointerCapture(event.pointerId);
      this.jump(event);
    });
    this.map.addEventListener("pointermove", (event) => event.buttons && this.jump(event));
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const rect = this.svg.getBoundingClientRect();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (event.shiftKey) this.pan(-(event.deltaY || event.deltaX) * unit, 0);
    else this.zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0015)), { x: event.clientX - rect.left, y: event.clientY - rect.top });
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.hasMoved = this.pointers.size > 1;
  }

  private drag(event: PointerEvent): void {
    const from = this.pointers.get(event.pointerId);
    if (from === undefined) return;
    const to = { x: event.clientX, y: event.clientY };
    if (!this.hasMoved && Math.hypot(to.x - from.x, to.y - from.y) < 4) return;
    if (!this.hasMoved && event.isTrusted) this.svg.setPointerCapture(event.pointerId);
    this.hasMoved = true;
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, to);
    if (other === undefined) return this.pan(to.x - from.x, to.y - from.y);
    const rect = this.svg.getBoundingClientRect();
    const ratio = Math.hypot(to.x - other.x, to.y - other.y) / Math.max(Math.hypot(from.x - other.x, from.y - other.y), 1);
    this.pan((to.x - from.x) / 2, (to.y - from.y) / 2);
    this.zoom(ratio, { x: (to.x + other.x) / 2 - rect.left, y: (to.y + other.y) / 2 - rect.top });
  }

  private release(event: PointerEvent): void {
    const isPressed = this.pointers.delete(event.pointerId);
    if (isPressed && !this.hasMoved && event.type !== "pointercancel") this.choose(event);
  }

  private choose(event: MouseEvent): void {
    const target = event.target as Element;
    const key = keyAt(target) ?? this.keyAfar(event);
    if (key !== null && target.closest(".toggle") !== null) return this.listener.onToggle(key);
    const value = Number(target.closest("[data-value]")?.getAttribute("data-value") ?? -1);
    this.listener.onSelect(key ?? "", value);
  }

  /** The box at a point of a drawing that is seen from afar. */
  private keyAfar(event: MouseEvent): string | null {
    if (this.view.scale >= AFAR || this.isSmall) return null;
    const rect = this.svg.getBoundingClientRect();
    const [x, y] = [(event.clientX - rect.left - this.view.x) / this.view.scale, (event.clientY - rect.top - this.view.y) / this.view.scale];
    const inside = [...this.scene.shapes.values()].filter((shape) => x >= shape.x && x <= shape.x + shape.w && y >= shape.y && y <= shape.y + shape.h);
    return inside.at(-1)?.key ?? null;
  }

  zoomIn = (): void => this.zoom(STEP);
  zoomOut = (): void => this.zoom(1 / STEP);
}

// -- parts of shapes -------------------------------------------------------------------------------

const SIGNS: Record<Mark, string> = { added: "+", removed: "−", changed: "~" };

/** The mark of a closed group in which all has the same one. */
function wholeMark(item: Item, counts: Map<string, number>): Mark | null {
  const [first] = counts;
  return first !== undefined && isGroup(item) && !item.isOpen && first[1] === item.ops.length ? (first[0] as Mark) : null;
}

function badgeOf(mark: Mark | null, counts: Map<string, number>, isFrame: boolean): string {
  if (mark !== null) return { added: "+ added", removed: "− removed", changed: "~ changed" }[mark];
  return isFrame ? "" : [...counts].map(([each, count]) => `${SIGNS[each as Mark]}${count}`).join(" ");
}

/** Where a drawing begins that is larger than the pane, so that no more of the pane than an edge stays empty. */
function within(start: number, pane: number, drawing: number): number {
  return drawing + 2 * EDGE <= pane ? start : Math.min(Math.max(start, pane - drawing - EDGE), EDGE);
}

function described(shape: Shape, role: string, mark: Mark | null, counts: Map<string, number>): string {
  const state = isGroup(shape.item) ? (shape.item.isOpen ? "open group" : "closed group") : "";
  const changes = mark ?? [...counts].map(([each, count]) => `${count} ${each}`).join(", ");
  return [shape.title, ...shape.rows.map((row) => row.text), role, state, changes].filter(Boolean).join(", ");
}

function toggle(isFrame: boolean, title: string): SVGElement {
  const [x, y] = [16, isFrame ? 13 : 15];
  return svg("g", { class: "toggle", role: "button", "aria-expanded": String(isFrame), "aria-label": `${isFrame ? "close" : "open"} ${title}` }, svg("circle", { cx: x, cy: y, r: 8 }), svg("path", { d: `M${x - 4} ${y}h8${isFrame ? "" : `M${x} ${y - 4}v8`}` }));
}

function labels(shape: Shape, isFrame: boolean): SVGElement[] {
  const middle = isFrame ? 30 : (shape.w - stackOf(shape.item)) / 2 + (isGroup(shape.item) ? 12 : 0);
  const title = svg("text", { class: "title", x: middle, y: isFrame ? 17.5 : 19, "text-anchor": isFrame ? "start" : "middle", "font-size": TITLE }, shape.title);
  const rows = shape.rows
    .filter((row) => row.text)
    .map((row, i) => svg("text", { class: "row", x: middle, y: 34 + i * 15, "text-anchor": "middle", "font-size": SMALL, "data-value": row.value >= 0 ? row.value : null }, row.text));
  return [title, ...rows];
}

/** A path through points, from rank to rank; ``isSideways``: from side to side, over all that is between. */
export function curve(points: Point[], isSideways = false): string {
  // A part without length has no direction, which the head at its end would need.
  const [first, ...rest] = points.filter((point, i) => i === 0 || Math.hypot(point.x - points[i - 1]!.x, point.y - points[i - 1]!.y) > 0.05) as [Point, ...Point[]];
  let [d, at] = [`M${first.x.toFixed(1)} ${first.y.toFixed(1)}`, first];
  for (const to of rest) {
    const middle = (at.y + to.y) / 2;
    const reach = (at.x + to.x) / 2;
    const c1 = isSideways ? { x: reach, y: at.y } : { x: at.x, y: middle };
    const c2 = isSideways ? { x: reach, y: to.y } : { x: to.x, y: middle };
    if (Math.abs(at.x - to.x) < 0.5) d += `V${to.y.toFixed(1)}`;
    else if (isSideways && Math.abs(at.y - to.y) < 0.5) d += `H${to.x.toFixed(1)}`;
    else d += `C${c1.x.toFixed(1)} ${c1.y.toFixed(1)} ${c2.x.toFixed(1)} ${c2.y.toFixed(1)} ${to.x.toFixed(1)} ${to.y.toFixed(1)}`;
    at = to;
  }
  return d;
}

function arrowHeads(): SVGDefsElement {
  const head = (id: string): SVGElement =>
    svg("marker", { id, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0.5 8 4 0 7.5z", class: id }));
  return svg("defs", {}, head("head"), head("head-on"));
}

function labelsIn(scene: Scene): number {
  let count = 0;
  for (const shape of scene.shapes.values()) count += 1 + shape.rows.length;
  return count;
}

function keyAt(target: EventTarget | null): string | null {
  return (target as Element | null)?.closest("[data-key]")?.getAttribute("data-key") ?? null;
}

function meets(a: Set<string>, b: Set<string>): boolean {
  for (const key of b) if (a.has(key)) return true;
  return false;
}
