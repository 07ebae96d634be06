// What is drawn: the operators of a state in groups that open and close. Groups are the graphs nested in operators, name scopes, and layers
// that repeat.

import type { Changes } from "./changes";
import { FORWARD, GIVEN, PERSISTABLE } from "./data";
import { withGhosts } from "./lines";
import { type Op, push, reads, type State, writes } from "./state";

export type GroupKind = "root" | "region" | "branch" | "scope" | "repeat" | "turn";

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
export const isGroup = (item: Item): item is Group => "children" in item;

const FEW = 60; // operators that are shown without folding anything
const SOME = 150; // operators up to which the graphs of loops and branches are open

/** A graph before and after a step, in groups. ``choices`` are the groups that the user opened or closed. */
export class Tree {
  readonly root: Group;
  readonly homes = new Map<number, Group>(); // by operator, the group that it lies in
  private readonly items = new Map<number, Item>(); // by operator, its own box or frame
  readonly inputs = new Map<number, Leaf>(); // by value, the pill that stands for it
  readonly groups = new Map<string, Group>();
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
    const plain: (number | Group)[] = [];
    const inner = new Map<string, number[]>();
    for (const id of order) {
      const op = this.op(id);
      const part = op.scope.split("/").filter(Boolean)[path.length];
      if (part === undefined) {
        plain.push(id);
        continue;
      }
      const key = `s${group.graph}:${[...path, part].join("/")}:${op.role}`;
      if (!inner.has(key)) {
        const scope = this.group("scope", key, part, null, group.graph, group);
        scope.role = this.roleOf(op);
        plain.push(scope);
      }
      push(inner, key, id);
    }
    this.fillRepeats(group, plain);
    for (const [key, ops] of inner) {
      const scope = this.groups.get(key)!;
      this.fillScopes(scope, ops, [...path, scope.title]);
      this.finish(scope, this.total <= FEW);
    }
  }

  private roleOf(op: Op): number {
    return this.stateOf(op).role(op);
  }

  private fillRepeats(group: Group, items: (number | Group)[]): void {
    let run: number[] = [];
    const flush = (): void => {
      this.fold(group, run);
      run = [];
    };
    for (const item of items) {
      if (typeof item === "number") run.push(item);
      else {
        flush();
        group.children.push(item);
      }
    }
    flush();
  }

  private fold(group: Group, order: number[]): void {
    const found = this.total > FEW ? bestRepetition(this.tokens(order)) : null;
    if (found === null) {
      for (const id of order) this.place(group, id);
      return;
    }
    const { start, period, count } = found;
    this.fold(group, order.slice(0, start));
    const turns = Array.from({ length: count }, (_, i) => order.slice(start + i * period, start + (i + 1) * period));
    const repeat = this.group("repeat", `x${turns[0]![0]}`, `${count} × ${this.summary(turns[0]!)}`, null, group.graph, group);
    for (const [i, ops] of turns.entries()) {
      const turn = this.group("turn", `y${ops[0]}`, `${i + 1} of ${count}`, null, group.graph, repeat);
      if (period === 1) this.place(repeat, ops[0]!);
      else {
        for (const id of ops) this.place(turn, id);
        this.finish(turn, false);
        repeat.children.push(turn);
      }
    }
    this.finish(repeat, false);
    group.children.push(repeat);
    this.fold(group, order.slice(start + count * period));
  }

  /** What operators look like to one another: the same for those in the same place of layers that repeat. */
  private tokens(order: number[]): string[] {
    const places = new Map(order.map((id, i) => [id, i]));
    return order.map((id, i) => {
      const op = this.op(id);
      const state = this.stateOf(op);
      const from = reads(op).map((value) => {
        const writer = state.writers(value)[0];
        const place = writer === undefined ? undefined : places.get(writer);
        return writer === undefined ? "given" : place === undefined || this.op(writer).role !== op.role ? "other" : i - place < 64 ? i - place : "far";
      });
      const types = writes(op).map((value) => state.values.get(value)?.type);
      return `${op.type} ${op.role} ${this.changes.ops.get(id) ?? ""} ${from.join(",")} ${types.join(",")}`;
    });
  }

  private summary(ops: number[]): string {
    const types = ops.map((id) => this.op(id).type);
    return types.length <= 2 ? types.join(", ") : `(${types.slice(0, 2).map((type) => (type.length > 14 ? `${type.slice(0, 12)}…` : type)).join(", ")}, … ${types.length})`;
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

  /** Pills for data, and for the arguments of nested graphs that something reads. */
  private addInputs(): void {
    for (const group of [...this.groups.values()]) {
      if (group.kind !== "root" && group.kind !== "region" && group.kind !== "branch") continue;
      if (group.kind === "region" && group.op!.graphs.length > 1) continue;
      const state = this.after.graphs.has(group.graph) ? this.after : this.before;
      const inputs = state.graphs.get(group.graph)?.inputs ?? [];
      const pills = inputs.filter((value) => state.readers(value).length > 0 && (group.kind !== "root" || !isNamed(state, value)));
      const leaves = pills.map((value): Leaf => ({ kind: "value", key: `v${value}`, op: null, value, parent: group }));
      for (const leaf of leaves) this.inputs.set(leaf.value, leaf);
      group.children.unshift(...leaves);
    }
  }
}

export const MANY_READERS = 12; // a value with more is named inside its readers instead of being drawn

/** Whether no arrows come from a value: parameters, and what very many operators read, are named inside those instead. */
export function isNamed(state: State, value: number): boolean {
  const marks = state.values.get(value)?.marks ?? 0;
  return ((marks & GIVEN) !== 0 && (marks & PERSISTABLE) !== 0) || state.readers(value).length > MANY_READERS;
}

export function outermostClosed(group: Group): Group | null {
  let found: Group | null = null;
  for (let each: Group | null = group; each !== null; each = each.parent) if (!each.isOpen) found = each;
  return found;
}

interface Repetition {
  start: number;
  period: number;
  count: number;
}

/** The stretch of equal neighbors that folds most; of several with as much, the shortest period. */
export function bestRepetition(tokens: string[]): Repetition | null {
  const known = new Map<string, number>();
  const codes = Int32Array.from(tokens, (token) => known.get(token) ?? (known.set(token, known.size), known.size - 1));
  let best: Repetition | null = null;
  let saved = 7; // it has to be worth a group
  for (const period of periods(codes)) {
    for (let i = 0, length = 0; i + period <= codes.length; i++) {
      if (i + period < codes.length && codes[i] === codes[i + period]) {
        length++;
        continue;
      }
      const count = Math.floor(length / period) + 1;
      const gain = (count - 1) * period;
      if (count > 1 && gain > saved && (period > 1 || count > 3)) {
        saved = gain;
        best = { start: i - length, period, count };
      }
      length = 0;
    }
  }
  return best;
}

const NEAR = 12; // equal tokens that one is compared with
const CANDIDATES = 120;

/** Distances at which the same comes again most often, the shortest first. */
function periods(codes: Int32Array): number[] {
  const places = new Map<number, number[]>();
  const counts = new Map<number, number>();
  codes.forEach((code, i) => {
    const earlier = places.get(code) ?? [];
    for (const place of earlier.slice(-NEAR)) counts.set(i - place, (counts.get(i - place) ?? 0) + 1);
    earlier.push(i);
    places.set(code, earlier);
  });
  const often = [...counts].filter(([period, count]) => count >= Math.min(period, 4)).sort((a, b) => b[1] - a[1]);
  return often.slice(0, CANDIDATES).map(([period]) => period).sort((a, b) => a - b);
}
