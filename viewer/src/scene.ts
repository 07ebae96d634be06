// Where everything is: boxes with their labels and arrows between them, from the groups that are open.

import { type Area, Corridors } from "./corridors";
import { FORWARD } from "./data";
import { type Box, layered, type Link, type Point } from "./layout";
import { type Op, push, reads, shown, type State, writes } from "./state";
import { type Group, isGroup, isParameter, type Item, mostUsual, outermostClosed, type Tree } from "./tree";

export const TITLE = 13; // sizes of letters
export const SMALL = 11;
export const BOLD = 1.16; // what bold letters are wider
const LINE = 15;
const PAD = 7;
const FRAME = 14; // between the frame of an open group and what is in it
const HEAD = 26; // height of its heading
const MOST_ROWS = 4;
const MOST_TYPES = 4;
const FEW_COLUMNS = 4; // copies side by side, at least
const MOST_LINES = 14; // that say what is in a layer
const STACK = 6; // by how much the cards of a closed group are offset, in all

export interface Label {
  text: string;
  value: number; // what it names, or -1
}

export interface Shape {
  key: string;
  item: Item;
  x: number;
  y: number;
  w: number;
  h: number;
  title: string;
  rows: Label[];
}

/** What an arrow is: saved ones go from the forward to the backward, loops around, and those that are gone to what a removed one wrote. */
export type Kind = "flow" | "saved" | "loop" | "gone";

export interface Arrow {
  key: string;
  values: Set<number>; // several between groups that are closed
  kind: Kind;
  points: Point[];
  box: [left: number, top: number, right: number, bottom: number];
  sources: Set<string>; // keys of the shapes at its ends, also through frames
  targets: Set<string>;
}

export interface Scene {
  shapes: Map<string, Shape>; // frames before what is in them
  arrows: Arrow[];
  width: number;
  height: number;
}

interface Wire {
  value: number;
  values: Set<number>;
  from: string;
  to: string;
  kind: Kind;
  sources: Set<string>;
  targets: Set<string>;
}

export function sceneOf(tree: Tree): Scene {
  return new Builder(tree).scene();
}

/** About how wide a text is; it has to fit, so rather too much. */
export function widthOf(text: string, size: number): number {
  let width = 0;
  for (const letter of text) width += letter > "\u2e7f" ? 1 : "…×→%@".includes(letter) ? 1 : "iljtfI.,:;'|![]() ".includes(letter) ? 0.34 : "mwMW@".includes(letter) ? 0.9 : letter >= "A" && letter <= "Z" ? 0.69 : 0.58;
  return width * size;
}

export function shortened(text: string, most: number): string {
  const half = Math.floor((most - 1) / 2);
  return text.length <= most ? text : `${text.slice(0, most - 1 - half)}…${text.slice(text.length - half)}`;
}

export const extentsOf = (type: string): string => (type.includes("[") ? type.slice(type.indexOf("[")) : type);

class Builder {
  private readonly wires = new Map<string, Map<string, Wire>>(); // by the group that they lie in
  private readonly shapes = new Map<string, Shape>();
  private readonly arrows: Arrow[] = [];
  private readonly across = new Map<string, { source: Item; target: Item; values: Set<number> }>(); // arrows drawn as one curve over all
  private readonly bundles = new Map<string, number>(); // by the ends of an arrow of a closed group, the value that names it
  private readonly ports = new Map<string, Map<string, number>>(); // by group: where values enter and leave, from its middle

  constructor(private readonly tree: Tree) {}

  scene(): Scene {
    this.connect();
    const size = this.arrange(this.tree.root, false);
    this.put(this.tree.root, 0, 0);
    const corridors = new Corridors(this.areas());
    for (const [key, { source, target, values }] of this.across) this.arrows.push(this.acrossAll(key, source, target, values, corridors));
    return { shapes: this.shapes, arrows: this.arrows, width: size.w, height: size.h };
  }

  // -- arrows by group ----------------------------------------------------------------------------

  private connect(): void {
    for (const [id] of this.tree.homes) {
      const op = this.tree.op(id);
      const state = this.tree.stateOf(op);
      const target = this.tree.visible(id)!;
      const isOpened = isGroup(target) && target.op === op && target.isOpen;
      const passed = new Set(isOpened ? op.operands : []);
      for (const value of new Set(reads(op))) if (!passed.has(value)) this.flow(state, value, target);
      if (isOpened) this.enter(op, state);
      if (this.tree.changes.ops.get(id) === "changed") this.gone(op, target);
    }
  }

  /** Arrows from operators that are gone to one that read what they wrote. */
  private gone(op: Op, target: Item): void {
    const { before, after } = this.tree;
    for (const value of new Set(reads(before.ops.get(op.id)!))) {
      if (before.writers(value).some((writer) => !after.ops.has(writer))) this.flow(before, value, target, "gone");
    }
  }

  /** Arrows into the graphs of an operator, to the pills of their arguments; and around in loops. */
  private enter(op: Op, state: State): void {
    for (const { graph } of op.graphs) {
      const inner = state.graphs.get(graph)!;
      op.operands.forEach((value, i) => this.enterAt(state, value, inner.inputs[i]));
      for (const value of inner.inputs) {
        const kept = state.values.get(value)?.residual ?? -1;
        if (kept >= 0) this.enterAt(state, kept, value);
      }
      const [start, count] = op.carried;
      for (let k = 0; k < count; k++) this.around(state, inner.results[k]!, inner.inputs[start + k]!);
    }
  }

  private enterAt(state: State, value: number, argument: number | undefined): void {
    const pill = argument === undefined ? undefined : this.tree.inputs.get(argument);
    if (pill !== undefined) this.flow(state, value, outermostClosed(pill.parent) ?? pill);
  }

  private around(state: State, result: number, argument: number): void {
    const pill = this.tree.inputs.get(argument);
    const source = this.sources(state, result)[0];
    if (pill !== undefined && source !== undefined && source !== pill && outermostClosed(pill.parent) === null) this.wire(source, pill, result, "loop");
  }

  private flow(state: State, value: number, target: Item, kind: Kind = "flow"): void {
    if (this.tree.isNamed(state, value) && !this.tree.inputs.has(value)) return;
    for (const source of this.sources(state, value)) if (source !== target) this.wire(source, target, value, kind);
  }

  /** Where a value comes from: the operator that writes it, what is inside of an open one, or its pill. */
  private sources(state: State, value: number): Item[] {
    const pill = this.tree.inputs.get(value);
    if (pill !== undefined) return [outermostClosed(pill.parent) ?? pill];
    return state.writers(value).flatMap((id) => {
      const op = this.tree.op(id);
      const item = this.tree.visible(id);
      const at = op.outcomes.indexOf(value);
      if (item === null) return [];
      if (!isGroup(item) || item.op !== op || !item.isOpen || at < 0) return [item];
      const results = op.graphs.map(({ graph }) => state.graphs.get(graph)?.results[at]).filter((result) => result !== undefined);
      const inner = results.flatMap((result) => this.sources(state, result));
      return inner.length ? inner : [item];
    });
  }

  /** An arrow, in pieces: within each open group around one of its ends, and in the one around both. */
  private wire(source: Item, target: Item, value: number, kind: Kind): void {
    const [ups, downs] = [groupsAround(source), groupsAround(target)];
    const common = ups.find((group) => downs.includes(group));
    if (common === undefined || source === common || target === common) return;
    const id = this.bundle(source, target, value);
    if (this.tree.roleOfBox(source) === FORWARD && this.tree.roleOfBox(target) !== FORWARD) {
      const key = `${id} ${source.key} ${target.key}`;
      const known = this.across.get(key) ?? { source, target, values: new Set() };
      this.across.set(key, known);
      known.values.add(value);
      return;
    }
    const made = (group: Group, from: string, to: string): void => this.piece(group, from, to, id, value, kind, source.key, target.key);
    let from = source.key;
    for (const group of ups.slice(0, ups.indexOf(common))) {
      made(group, from, `out ${id}`);
      from = group.key;
    }
    const inwards = downs.slice(0, downs.indexOf(common)).reverse();
    made(common, from, inwards[0]?.key ?? target.key);
    inwards.forEach((group, i) => made(group, `in ${id}`, inwards[i + 1]?.key ?? target.key));
  }

  /** The value that an arrow goes by: all arrows between a closed group and another item are one. */
  private bundle(source: Item, target: Item, value: number): number {
    const isClosed = (item: Item): boolean => isGroup(item) && !item.isOpen;
    if (!isClosed(source) && !isClosed(target)) return value;
    const key = `${source.key}>${target.key}`;
    if (!this.bundles.has(key)) this.bundles.set(key, value);
    return this.bundles.get(key)!;
  }

  private piece(group: Group, from: string, to: string, id: number, value: number, kind: Kind, source: string, target: string): void {
    if (from === to) return;
    if (!this.wires.has(group.key)) this.wires.set(group.key, new Map());
    const wires = this.wires.get(group.key)!;
    const key = `${id} ${from} ${to}`;
    const wire = wires.get(key) ?? { value: id, values: new Set(), from, to, kind, sources: new Set(), targets: new Set() };
    wire.values.add(value);
    wire.sources.add(source);
    wire.targets.add(target);
    wires.set(key, wire);
  }

  // -- sizes and places ---------------------------------------------------------------------------

  private readonly sizes = new Map<string, { w: number; h: number }>();
  private readonly places = new Map<string, { points: Map<string, Point>; arrows: { wire: Wire; points: Point[] }[] }>();

  /** Lay out an open group, the groups in it first. ``isUp``: its arrows go up, as those of the backward do. */
  private arrange(group: Group, isUp: boolean): { w: number; h: number } {
    const sides = new Set(group.children.map((item) => (this.tree.roleOfBox(item) === FORWARD ? 0 : 1)));
    const isMirrored = sides.size > 1 && !isUp;
    for (const item of group.children) {
      const goesUp = isUp || (isMirrored && this.tree.roleOfBox(item) !== FORWARD);
      this.sizes.set(item.key, isGroup(item) && item.isOpen ? this.arrange(item, goesUp) : this.measured(item));
    }
    const wires = [...(this.wires.get(group.key)?.values() ?? [])];
    const keys = group.children.map((item) => item.key);
    const entries = [...new Set(wires.flatMap((wire) => [wire.from, wire.to]))].filter((key) => key.startsWith("in ") || key.startsWith("out "));
    const index = new Map([...keys, ...entries].map((key, i) => [key, i]));
    const boxes = [...group.children.map((item) => this.box(item, isMirrored)), ...entries.map(port)];
    if (isMirrored) this.pair(group, boxes, index);
    const links = wires.map((wire): Link => this.link(wire, index));
    const placed = layered(boxes, [...links, ...rows(group, wires, index)]);
    const heading = group.kind === "root" ? 0 : HEAD;
    const [w, inner] = [Math.max(placed.width, widthOf(group.title, TITLE) + 60) + 2 * FRAME, placed.height];
    const left = (w - placed.width) / 2;
    const turned = (y: number, h: number): number => heading + FRAME + (isUp ? inner - y - h : y);
    const points = new Map([...index].map(([key, i]) => [key, { x: left + placed.boxes[i]!.x, y: turned(placed.boxes[i]!.y, boxes[i]!.h) }]));
    this.ports.set(group.key, new Map(entries.map((key) => [key, points.get(key)!.x - w / 2])));
    const arrows = wires.map((wire, i) => ({ wire, points: placed.routes[i]!.map(({ x, y }) => ({ x: left + x, y: turned(y, 0) })) }));
    for (const { wire, points: way } of arrows) this.reachFrame(wire, way, isUp, heading, heading + inner + 2 * FRAME);
    this.places.set(group.key, { points, arrows });
    return { w, h: heading + inner + 2 * FRAME };
  }

  /** Lead arrows that enter or leave up to the frame. */
  private reachFrame(wire: Wire, points: Point[], isUp: boolean, top: number, bottom: number): void {
    const entry = isUp ? bottom : top - HEAD;
    const exit = isUp ? top - HEAD : bottom;
    if (wire.from.startsWith("in ")) points.unshift({ x: points[0]!.x, y: entry });
    if (wire.to.startsWith("out ")) points.push({ x: points.at(-1)!.x, y: exit });
  }

  private box(item: Item, isMirrored: boolean): Box {
    return { ...this.sizes.get(item.key)!, side: isMirrored ? this.tree.roleOfBox(item) : 0, partner: -1, pin: null };
  }

  /** Give each box of the backward the one of the forward that it belongs to; of several that belong to one, its gradient has it. */
  private pair(group: Group, boxes: Box[], index: Map<string, number>): void {
    const owners = new Map<number, number>();
    group.children.forEach((item, i) => {
      if (boxes[i]!.side === 0) return;
      const { at, isGradient } = this.partnerOf(item, group, index);
      if (at < 0 || boxes[at]!.side !== 0 || (owners.has(at) && !isGradient)) return;
      if (owners.has(at)) boxes[owners.get(at)!]!.partner = -1;
      owners.set(at, i);
      boxes[i]!.partner = at;
    });
  }

  private partnerOf(item: Item, group: Group, index: Map<string, number>): { at: number; isGradient: boolean } {
    const place = (op: number): number => {
      let other: Item | null = this.tree.visible(op);
      while (other !== null && other.parent !== group) other = other.parent;
      return other === null ? -1 : index.get(other.key)!;
    };
    if (item.op !== null) {
      const at = place(item.op.forward);
      return { at, isGradient: at >= 0 && item.op.type === `${this.tree.op(item.op.forward).type}_grad` };
    }
    const votes = new Map<number, number>();
    for (const id of isGroup(item) ? item.ops : []) {
      const at = place(this.tree.op(id).forward);
      if (at >= 0) votes.set(at, (votes.get(at) ?? 0) + 1);
    }
    return { at: [...votes].sort((a, b) => b[1] - a[1])[0]?.[0] ?? -1, isGradient: true };
  }

  private link(wire: Wire, index: Map<string, number>): Link {
    const at = (key: string, port: string): number => this.ports.get(key)?.get(port) ?? 0;
    const [from, to] = [index.get(wire.from)!, index.get(wire.to)!];
    return { from, to, value: wire.value, isBack: wire.kind === "loop", fromAt: at(wire.from, `out ${wire.value}`), toAt: at(wire.to, `in ${wire.value}`) };
  }

  private put(group: Group, x: number, y: number): void {
    const { points, arrows } = this.places.get(group.key)!;
    for (const item of group.children) {
      const point = points.get(item.key)!;
      const [left, top] = [x + point.x, y + point.y];
      this.shapes.set(item.key, { key: item.key, item, x: left, y: top, ...this.sizes.get(item.key)!, title: this.title(item), rows: this.rows(item) });
      if (isGroup(item) && item.isOpen) this.put(item, left, top);
    }
    for (const { wire, points: way } of arrows) this.arrows.push(this.arrow(group, wire, way.map((point) => ({ x: x + point.x, y: y + point.y }))));
  }

  private arrow(group: Group, wire: Wire, points: Point[]): Arrow {
    return { ...wire, key: `${group.key} ${wire.value} ${wire.from} ${wire.to}`, points, box: boxAround(points) };
  }

  /** What lines from side to side pass around: boxes with what is written above them, titles of frames, and frames of others. */
  private areas(): Area[] {
    return [...this.shapes.values()].flatMap(({ item, x, y, w, h, title }): Area[] => {
      const frame = { left: x, top: y, right: x + w, bottom: y + h };
      if (isGroup(item) && item.isOpen) return [{ ...frame, right: x + 40 + widthOf(title, TITLE) * BOLD, bottom: y + HEAD - 2 }, { ...frame, isFrame: true }];
      const isMarked = item.op !== null ? this.tree.changes.ops.has(item.op.id) : isGroup(item) && changesIn(this.tree, item).size > 0;
      return [{ ...frame, top: y - (isMarked ? SMALL + 4 : 0) }];
    });
  }

  /** A line from side to side, around all that is between. */
  private acrossAll(key: string, source: Item, target: Item, values: Set<number>, corridors: Corridors): Arrow {
    const [a, b] = [this.shapes.get(source.key)!, this.shapes.get(target.key)!];
    const isRight = b.x + b.w / 2 >= a.x + a.w / 2;
    const side = (shape: Shape, isRightEnd: boolean): Point => ({ x: shape.x + (isRightEnd ? shape.w : 0), y: shape.y + shape.h / 2 });
    const points = corridors.way(side(a, isRight), side(b, !isRight));
    return { key, values, kind: "saved", points, box: boxAround(points), sources: new Set([source.key]), targets: new Set([target.key]) };
  }

  // -- labels -------------------------------------------------------------------------------------

  private title(item: Item): string {
    if (isGroup(item)) return item.title;
    if (item.op !== null) return item.op.type;
    return shortened(shown(this.stateAround(item.value).values.get(item.value)), 24);
  }

  private stateAround(value: number): State {
    return this.tree.after.values.has(value) ? this.tree.after : this.tree.before;
  }

  private rows(item: Item): Label[] {
    if (isGroup(item) && item.kind === "part" && !item.isOpen) return this.part(item);
    if (isGroup(item)) return item.isOpen ? [] : [{ text: `${item.ops.length} operators${this.layer(item).length ? " in all" : ""}`, value: -1 }, ...this.layer(item), ...this.readBy(item)];
    if (item.op === null) return [{ text: extentsOf(this.stateAround(item.value).values.get(item.value)?.type ?? "?"), value: item.value }];
    const state = this.tree.stateOf(item.op);
    const [first, ...others] = item.op.outputs.flatMap((slot) => slot.values);
    const value = first === undefined ? undefined : state.values.get(first);
    const more = others.length ? ` +${others.length}` : "";
    const result = value === undefined ? [] : [{ text: `${shortened(shown(value), 22)} ${extentsOf(value.type)}${more}`, value: value.id }];
    return [...result, ...this.named(item.op, state)];
  }

  /** What an operator reads that no arrow comes from, by name. */
  private named(op: Op, state: State): Label[] {
    const rows = op.inputs.flatMap(({ values }) =>
      values.filter((value) => !this.tree.inputs.has(value) && this.tree.isNamed(state, value)).map((id) => ({ text: `◂ ${shortened(shown(state.values.get(id)), 26)}`, value: id })),
    );
    return rows.length <= MOST_ROWS ? rows : [...rows.slice(0, MOST_ROWS - 1), { text: `◂ and ${rows.length - MOST_ROWS + 1} more`, value: -1 }];
  }

  /** From which value to which a part goes, and of which types it has most. */
  private part(group: Group): Label[] {
    const names = [group.ops[0]!, group.ops.at(-1)!].map((id) => shown(this.tree.stateOf(this.tree.op(id)).values.get(writes(this.tree.op(id))[0] ?? -1)));
    const counts = new Map<string, number>();
    for (const id of group.ops) counts.set(this.tree.op(id).type, (counts.get(this.tree.op(id).type) ?? 0) + 1);
    const types = [...counts].sort((a, b) => b[1] - a[1]);
    const rest = types.length > MOST_TYPES ? [`${types.length - MOST_TYPES} other types`] : [];
    const texts = [names.map((name) => shortened(name, 20)).join(" … "), ...types.slice(0, MOST_TYPES).map(([type, count]) => `${type} × ${count}`), ...rest];
    return texts.map((text) => ({ text, value: -1 }));
  }

  /** Of a repetition of more than two operators, what is in one copy: a line each, in the backward from below to above. */
  private layer(group: Group): Label[] {
    const turns = group.kind === "repeat" ? group.children.filter((item): item is Group => isGroup(item) && item.kind === "turn") : [];
    const typesOf = (turn: Group): string[] => turn.children.map((item) => (isGroup(item) ? item.title : item.op!.type));
    const types = turns.length ? typesOf(mostUsual(turns, (turn) => typesOf(turn).join())) : [];
    if (types.length < 3) return [];
    const lines = types.length <= MOST_LINES ? types : [...types.slice(0, MOST_LINES - 1), `… ${types.length} in all`];
    return (group.role === FORWARD ? lines : lines.reverse()).map((text) => ({ text, value: -1 }));
  }

  /** What very many boxes read, as far as a closed group does: at most two. */
  private readBy(group: Group): Label[] {
    const values = new Set<number>();
    const own = new Set(group.ops);
    for (const id of own) {
      const op = this.tree.op(id);
      const state = this.tree.stateOf(op);
      for (const value of reads(op)) {
        const isNamed = !this.tree.inputs.has(value) && !isParameter(state, value) && this.tree.isNamed(state, value);
        if (isNamed && !own.has(state.writers(value)[0] ?? -1)) values.add(value);
      }
    }
    return [...values].slice(0, 2).map((id) => ({ text: `◂ ${shortened(shown(this.stateAround(id).values.get(id)), 26)}`, value: id }));
  }

  private measured(item: Item): { w: number; h: number } {
    const rows = this.rows(item);
    const widest = Math.max(widthOf(this.title(item), TITLE) * BOLD, ...rows.map((row) => widthOf(row.text, SMALL))) + (isGroup(item) ? 30 : 0);
    const isPill = !isGroup(item) && item.op === null;
    const under = stackOf(item);
    return { w: Math.ceil(widest + 2 * (PAD + (isPill ? 8 : 3))) + under, h: 2 * PAD + LINE + rows.filter((row) => row.text).length * LINE - 1 + under };
  }
}

/** How far the cards under that of a closed group reach below it and to its right. */
export function stackOf(item: Item): number {
  return isGroup(item) && !item.isOpen && item.kind !== "region" && item.kind !== "turn" ? STACK : 0;
}

/** Links that nobody sees: copies that do not read one another are put in rows below one another, instead of one long row. */
function rows(group: Group, wires: Wire[], index: Map<string, number>): Link[] {
  const count = group.children.length;
  const own = new Set(group.children.map((item) => item.key));
  if (group.kind !== "repeat" || wires.some(({ from, to }) => own.has(from) && own.has(to))) return [];
  const columns = Math.max(Math.ceil(Math.sqrt(count / 2)), FEW_COLUMNS);
  const places = group.children.map((item) => index.get(item.key)!);
  return places.slice(columns).map((to, i) => ({ from: places[i]!, to, value: -1, isBack: false, fromAt: 0, toAt: 0 }));
}

function groupsAround(item: Item): Group[] {
  const found: Group[] = [];
  for (let group = item.parent; group !== null; group = group.parent) found.push(group);
  return found;
}

function boxAround(points: Point[]): Arrow["box"] {
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

function port(key: string): Box {
  return { w: 2, h: 0, side: 0, partner: -1, pin: key.startsWith("in ") ? "top" : "bottom" };
}

export function changesIn(tree: Tree, group: Group): Map<string, number> {
  const counts = new Map<string, number[]>();
  for (const id of group.ops) {
    const mark = tree.changes.ops.get(id);
    if (mark !== undefined) push(counts, mark, id);
  }
  return new Map([...counts].map(([mark, ops]) => [mark, ops.length]));
}
