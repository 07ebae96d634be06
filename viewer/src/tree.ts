// What is drawn: the operators of a state in groups that open and close. Groups are the graphs nested in operators, name scopes, and layers
// that repeat.

import type { Changes } from "./changes";
import { FORWARD, GIVEN, PERSISTABLE } from "./data";
import { withGhosts } from "./lines";
import { cuts } from "./parts";
import { folded, type Unit } from "./repeats";
import { type Op, push, reads, type State, writes } from "./state";

export type GroupKind = "root" | "region" | "branch" | "scope" | "repeat" | "turn" | "part";

export interface Leaf {
  kind: "op" | "value";
  key: string;
  op: Op | null;
  value: number;
  parent: Group;
}

export interface Group {
  kind: GroupKind;
  key: string;
  title: string;
  op: Op | null; // of a region its operator
  graph: number; // of a region or branch its graph
  ops: number[]; // of all operators inside, also of closed groups
  children: Item[];
  isOpen: boolean;
  role: number;
  parent: Group | null;
}

export type Item = Leaf | Group;
type Foldable = number | Group; // an operator, or the group of a scope
const opsOf = (item: Foldable): number[] => (typeof item === "number" ? [item] : item.ops);
export const isGroup = (item: Item): item is Group => "children" in item;

const FEW = 60; // operators that are shown without folding anything
const SCOPE = 4; // operators that the box of a name scope counts for, where it is folded with others
const MANY_READERS = 12; // a value that more boxes read is named inside them instead of being drawn
const MUCH = 200; // operators in a sequence from which on they are shown in parts
const SOME = 150; // operators up to which the graphs of loops and branches are open

/** A graph before and after a step, in groups. ``choices`` are the groups that the user opened or closed. */
export class Tree {
  readonly root: Group;
  readonly homes = new Map<number, Group>(); // by operator, the group that it lies in
  private readonly items = new Map<number, Item>(); // by operator, its own box or frame
  readonly inputs = new Map<number, Leaf>(); // by value, the pill that stands for it
  readonly groups = new Map<string, Group>();
  private readonly named = new Map<State, Map<number, boolean>>(); // of what many operators read, whether it is named in them
  private readonly total: number;

  constructor(
    readonly before: State,
    readonly after: State,
    readonly changes: Changes,
    private readonly choices: Map<string, boolean>,
  ) {
    this.total = after.ops.size;
    this.root = this.group("root", "root", "", null, after.root, null);
    this.root.isOpen = true;
    this.fillGraph(this.root, after.root);
    this.addInputs();
  }

  op(id: number): Op {
    return (this.after.ops.get(id) ?? this.before.ops.get(id))!;
  }

  /** The state to look up an operator or its values in: that before the step for one that is gone. */
  stateOf(op: Op): State {
    return this.after.ops.has(op.id) ? this.after : this.before;
  }

  /** The item that is visible for an operator: itself, or the outermost closed group around it. */
  visible(op: number): Item | null {
    const home = this.homes.get(op);
    if (home === undefined) return null;
    const closed = outermostClosed(home);
    return closed ?? this.items.get(op) ?? home;
  }

  /** Open all groups around an operator, by choices. */
  reveal(op: number): boolean {
    let isChanged = false;
    for (let group = this.homes.get(op) ?? null; group !== null; group = group.parent) {
      if (!group.isOpen) {
        this.choices.set(group.key, true);
        isChanged = true;
      }
    }
    return isChanged;
  }

  // -- groups -------------------------------------------------------------------------------------

  private group(kind: GroupKind, key: string, title: string, op: Op | null, graph: number, parent: Group | null): Group {
    const group: Group = { kind, key, title, op, graph, ops: [], children: [], isOpen: false, role: FORWARD, parent };
    this.groups.set(key, group);
    return group;
  }

  private fillGraph(group: Group, graph: number): void {
    const order = this.after.graphs.has(graph) ? withGhosts(graph, this.before, this.after) : this.before.order(graph);
    this.fillScopes(group, order, []);
  }

  /** Operators of a graph by the next part of their name scopes; those of one scope and one role are one group. */
  private fillScopes(group: Group, order: number[], path: string[]): void {
    const items: Foldable[] = [];
    const inner = new Map<Group, number[]>();
    for (const id of order) {
      const op = this.op(id);
      const part = op.scope.split("/").filter(Boolean)[path.length];
      if (part === undefined) {
        items.push(id);
        continue;
      }
      const key = `s${group.graph}:${[...path, part].join("/")}:${op.role}`;
      const scope = this.groups.get(key) ?? this.group("scope", key, part, null, group.graph, group);
      if (!inner.has(scope)) items.push(scope);
      push(inner, scope, id);
    }
    for (const [scope, ops] of inner) {
      this.fillScopes(scope, ops, [...path, scope.title]);
      this.finish(scope, this.total <= FEW);
    }
    this.fold(group, items);
  }

  private roleOf(op: Op): number {
    return this.stateOf(op).role(op);
  }

  /** The part of the program that a box belongs to. */
  roleOfBox(item: Item): number {
    if (isGroup(item)) return item.role;
    return item.op === null ? item.parent.role : this.roleOf(item.op);
  }

  // -- what repeats -------------------------------------------------------------------------------

  /** Put operators and groups of scopes into a group: those that repeat once, and what the backward made of them with them. */
  private fold(group: Group, items: Foldable[]): void {
    const main = items.filter((item) => this.roleOfItem(item) === FORWARD);
    const runs = this.foldAlone(group, main);
    this.foldAlong(group, items.filter((item) => this.roleOfItem(item) !== FORWARD), main, runs);
  }

  private roleOfItem(item: Foldable): number {
    return typeof item === "number" ? this.roleOf(this.op(item)) : item.role;
  }

  /** Fold what repeats in a sequence; return the copies of each repetition. */
  private foldAlone(group: Group, given: Foldable[]): Foldable[][][] {
    const { run, order } = this.total > FEW ? folded(this.units(given)) : { run: null, order: [] };
    if (run === null) return this.parts(group, given);
    const items = order.map((place) => given[place]!);
    const { start, period, count } = run;
    const before = this.foldAlone(group, items.slice(0, start));
    const turns = Array.from({ length: count }, (_, i) => items.slice(start + i * period, start + (i + 1) * period));
    this.repeat(group, turns);
    return [...before, turns, ...this.foldAlone(group, items.slice(start + count * period))];
  }

  /** Put what does not repeat into a group, very much of it in parts that are groups of their own; return the parts. */
  private parts(group: Group, items: Foldable[]): Foldable[][][] {
    const bounds = items.length > MUCH ? cuts(this.units(items)) : [];
    if (bounds.length === 0) for (const item of items) this.put(group, item);
    if (bounds.length === 0) return [];
    const parts = [0, ...bounds].map((start, i) => items.slice(start, bounds[i] ?? items.length));
    for (const part of parts) this.part(group, part);
    return parts.map((part) => [part]);
  }

  private part(group: Group, items: Foldable[]): void {
    const ids = items.flatMap(opsOf);
    const part = this.group("part", `p${ids[0]}`, `${ids.length} operators`, null, group.graph, group);
    for (const item of items) this.put(part, item);
    this.finish(part, false);
    group.children.push(part);
  }

  /** Fold what belongs to the copies of repetitions in the forward, or to its parts; what belongs to none is a sequence of its own. */
  private foldAlong(group: Group, items: Foldable[], main: Foldable[], runs: Foldable[][][]): void {
    const known = new Set(main.flatMap(opsOf));
    const copies = new Map<number, [run: number, copy: number]>();
    runs.forEach((turns, run) => turns.forEach((turn, copy) => turn.flatMap(opsOf).forEach((id) => copies.set(id, [run, copy]))));
    const owned = new Map<string, Foldable[][]>(); // by repetition and role, what belongs to each copy
    const alone: Foldable[] = [];
    for (const item of items) {
      const owner = this.owner(item, known);
      const [run, copy] = copies.get(owner) ?? [-1, -1];
      if (owner < 0) alone.push(item);
      else if (run < 0) this.put(group, item);
      if (run < 0) continue;
      const key = `${run} ${this.roleOfItem(item)}`;
      if (!owned.has(key)) owned.set(key, runs[run]!.map(() => []));
      owned.get(key)![copy]!.push(item);
    }
    for (const turns of owned.values()) {
      if (turns.filter((turn) => turn.length > 0).length > 1) this.repeat(group, turns);
      else if (turns.length === 1 && turns[0]!.length > 1) this.part(group, turns[0]!);
      else for (const item of turns.flat()) this.put(group, item);
    }
    this.foldAlone(group, alone);
  }

  /** The operator of the forward that an item belongs to: its own, or by what it computes or reads the gradient of. */
  private owner(item: Foldable, known: Set<number>): number {
    for (const id of opsOf(item)) {
      const op = this.op(id);
      const state = this.stateOf(op);
      const sources = [...writes(op), ...reads(op)].map((value) => state.values.get(value)?.gradientOf ?? -1).filter((value) => value >= 0);
      const around = sources.flatMap((value) => {
        const readers = state.readers(value).filter((reader) => known.has(reader));
        return [...state.writers(value), ...(readers.length === 1 ? readers : [])];
      });
      const isGradient = op.type === `${this.before.ops.get(op.forward)?.type ?? this.after.ops.get(op.forward)?.type}_grad`;
      const found = (isGradient ? [op.forward, ...around] : [...around, op.forward]).find((each) => known.has(each));
      if (found !== undefined) return found;
    }
    return -1;
  }

  /** A group of copies; a copy of one item is that item. Copies without items are left out. */
  private repeat(group: Group, turns: Foldable[][]): void {
    const filled = turns.filter((turn) => turn.length > 0);
    const first = filled[0]![0]!;
    const key = typeof first === "number" ? String(first) : `s${first.ops[0]}`;
    const nameOf = (item: Foldable): string => (typeof item === "number" ? this.op(item).type : item.title);
    const names = mostUsual(filled, (turn) => turn.map(nameOf).join()).map(nameOf);
    const isSingle = filled.every((turn) => turn.length === 1);
    const repeat = this.group("repeat", `x${key}`, `${filled.length} × ${this.summary(filled, names)}`, null, group.graph, group);
    for (const [i, items] of turns.entries()) {
      const isTurn = !isSingle && items.length > 0;
      const id = typeof items[0] === "number" ? items[0] : `s${items[0]?.ops[0]}`;
      const turn = isTurn ? this.group("turn", `y${id}`, `${i + 1} of ${turns.length}`, null, group.graph, repeat) : repeat;
      for (const item of items) this.put(turn, item);
      if (!isTurn) continue;
      this.finish(turn, false);
      repeat.children.push(turn);
    }
    this.finish(repeat, false);
    group.children.push(repeat);
  }

  private summary(turns: Foldable[][], names: string[]): string {
    const last = turns.at(-1)![0]!;
    if (names.length === 1 && typeof last !== "number") return `${(turns[0]![0] as Group).title} … ${last.title}`;
    return names.length <= 2 ? names.join(", ") : `${names.length} operators`;
  }

  private units(items: Foldable[]): Unit[] {
    const places = new Map(items.flatMap((item, i) => opsOf(item).map((id): [number, number] => [id, i])));
    return items.map((item, i) => {
      if (typeof item === "number") return { token: this.token(item), weight: 1, sources: this.sources(item, places) };
      const sources = item.ops.flatMap((id) => this.sources(id, places)).filter((source) => source !== i);
      return { token: item.ops.map((id) => this.token(id)).join("|"), weight: SCOPE, sources: [...new Set(sources)] };
    });
  }

  /** Which items the operands of an operator come from. */
  private sources(id: number, places: Map<number, number>): number[] {
    const op = this.op(id);
    const state = this.stateOf(op);
    return reads(op).map((value) => places.get(state.writers(value)[0] ?? -1) ?? -1);
  }

  /** What an operator has in common with those in the same place of layers that repeat: not the extents, nor the values of attributes. */
  private token(id: number): string {
    const op = this.op(id);
    const state = this.stateOf(op);
    const slots = [...op.inputs, ...op.outputs].map(({ name, values }) => `${name}${values.length}`);
    const kinds = writes(op).map((value) => kindOf(state.values.get(value)?.type ?? "?"));
    const nested = op.graphs.map(({ graph }) => state.order(graph).length);
    return [op.type, op.role, this.changes.ops.get(id) ?? "", slots, kinds, nested].join(" ");
  }

  private put(group: Group, item: Foldable): void {
    if (typeof item === "number") return this.place(group, item);
    item.parent = group;
    group.children.push(item);
  }

  /** Put an operator into a group; one with nested graphs is a group itself. */
  private place(group: Group, id: number): void {
    const op = this.op(id);
    this.homes.set(id, group);
    if (op.graphs.length === 0) {
      const leaf: Leaf = { kind: "op", key: `o${id}`, op, value: -1, parent: group };
      this.items.set(id, leaf);
      group.children.push(leaf);
      return;
    }
    const region = this.group("region", `o${id}`, op.type, op, op.graphs[0]!.graph, group);
    for (const { name, graph } of op.graphs) {
      const inner = op.graphs.length === 1 ? region : this.group("branch", `b${graph}`, name, null, graph, region);
      this.fillGraph(inner, graph);
      if (inner !== region) {
        inner.role = this.roleOf(op);
        this.finish(inner, true);
        region.children.push(inner);
      }
    }
    this.finish(region, this.total <= SOME);
    region.role = this.roleOf(op);
    this.items.set(id, region);
    group.children.push(region);
  }

  private finish(group: Group, isOpen: boolean): void {
    group.ops = group.children.flatMap((item) => (isGroup(item) ? (item.op ? [item.op.id, ...item.ops] : item.ops) : item.op ? [item.op.id] : []));
    const first = group.ops[0];
    if (first !== undefined) group.role = this.roleOf(this.op(first));
    group.isOpen = this.choices.get(group.key) ?? isOpen;
  }

  // -- values with a place of their own -----------------------------------------------------------

  /** Whether no arrows come from a value: parameters, and what very many boxes read, are named inside those instead. */
  isNamed(state: State, value: number): boolean {
    if (isParameter(state, value)) return true;
    const readers = state.readers(value);
    if (readers.length <= MANY_READERS) return false;
    const known = this.named.get(state) ?? new Map<number, boolean>();
    this.named.set(state, known);
    if (!known.has(value)) known.set(value, new Set(readers.map((id) => this.visible(id)?.key)).size > MANY_READERS);
    return known.get(value)!;
  }

  /** Pills for data, and for the arguments of nested graphs that something reads. */
  private addInputs(): void {
    for (const group of [...this.groups.values()]) {
      if (group.kind !== "root" && group.kind !== "region" && group.kind !== "branch") continue;
      if (group.kind === "region" && group.op!.graphs.length > 1) continue;
      const state = this.after.graphs.has(group.graph) ? this.after : this.before;
      const inputs = state.graphs.get(group.graph)?.inputs ?? [];
      const pills = inputs.filter((value) => state.readers(value).length > 0 && (group.kind !== "root" || !this.isNamed(state, value)));
      const leaves = pills.map((value): Leaf => ({ kind: "value", key: `v${value}`, op: null, value, parent: group }));
      for (const leaf of leaves) this.inputs.set(leaf.value, leaf);
      group.children.unshift(...leaves);
    }
  }
}

/** Whether a value is given and kept from run to run. */
export function isParameter(state: State, value: number): boolean {
  const marks = state.values.get(value)?.marks ?? 0;
  return (marks & GIVEN) !== 0 && (marks & PERSISTABLE) !== 0;
}

/** Of several things the one that there are most of that look the same, by a text; the first of those. */
export function mostUsual<T>(things: T[], lookOf: (thing: T) => string): T {
  const counts = new Map<string, number>();
  const looks = things.map(lookOf);
  for (const look of looks) counts.set(look, (counts.get(look) ?? 0) + 1);
  return things[looks.indexOf([...counts].reduce((most, each) => (each[1] > most[1] ? each : most))[0])]!;
}

/** A type without its extents: how many there are. */
function kindOf(type: string): string {
  const at = type.indexOf("[");
  return at < 0 ? type : `${type.slice(0, at)}${type.endsWith("[]") ? 0 : type.split(",").length}`;
}

export function outermostClosed(group: Group): Group | null {
  let found: Group | null = null;
  for (let each: Group | null = group; each !== null; each = each.parent) if (!each.isOpen) found = each;
  return found;
}
