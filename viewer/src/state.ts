// The state of a graph after any pass or rewrite, made from the first one and what each step changed.

import { BACKWARD, type Data, type Delta, FORWARD, type GraphRecord, NOTHING, OPTIMIZE, type OpRecord, type ValueRecord } from "./data";

export interface Slot {
  name: string;
  values: number[];
}

export interface Op {
  id: number;
  type: string;
  role: number;
  attributes: number;
  inputs: Slot[];
  outputs: Slot[];
  graphs: { name: string; graph: number }[];
  forward: number;
  source: number;
  madeBy: number;
  origin: number;
  graph: number;
  scope: string;
  operands: number[];
  outcomes: number[];
  carried: [start: number, count: number];
}

export interface Value {
  id: number;
  name: string;
  version: number;
  type: string;
  marks: number;
  gradientOf: number;
  graph: number;
  residual: number;
}

export interface Graph {
  id: number;
  owner: number;
  name: string;
  inputs: number[];
  results: number[];
  residuals: number[];
}

export const reads = (op: Op): number[] => op.inputs.flatMap((slot) => slot.values);
export const writes = (op: Op): number[] => op.outputs.flatMap((slot) => slot.values);
export const shown = (value: Value | undefined): string =>
  value === undefined ? "?" : value.version === NOTHING ? value.name : `${value.name}#${value.version}`;

/** A graph at one moment. Nothing in it is changed once it is made. */
export class State {
  private users: { writers: Map<number, number[]>; readers: Map<number, number[]> } | undefined;
  private partners: Map<number, number[]> | undefined;
  private derivatives: Derivatives | undefined;

  constructor(
    readonly ops: Map<number, Op> = new Map(),
    readonly values: Map<number, Value> = new Map(),
    readonly graphs: Map<number, Graph> = new Map(),
    readonly orders: Map<number, number[]> = new Map(),
    readonly root: number = NOTHING,
  ) {}

  writers(value: number): number[] {
    return this.uses().writers.get(value) ?? [];
  }

  readers(value: number): number[] {
    return this.uses().readers.get(value) ?? [];
  }

  /** The gradients of an operator. */
  gradients(op: number): number[] {
    if (this.partners === undefined) {
      this.partners = new Map();
      for (const each of this.ops.values()) if (each.forward !== NOTHING && each.role === BACKWARD) push(this.partners, each.forward, each.id);
    }
    return this.partners.get(op) ?? [];
  }

  order(graph: number): number[] {
    return this.orders.get(graph) ?? [];
  }

  /** Whether an operator is of the forward, by its own role and those of the operators around it. */
  role(op: Op): number {
    let each: Op | undefined = op;
    while (each !== undefined && each.role === FORWARD) each = this.ops.get(this.graphs.get(each.graph)?.owner ?? NOTHING);
    return each?.role ?? FORWARD;
  }

  /** How often what an operator of the backward computes was differentiated: 1 in a gradient, 2 in the gradient of a gradient; 0 in the forward. */
  derivative(op: Op): number {
    this.derivatives ??= new Derivatives(this);
    return this.role(op) === BACKWARD ? Math.max(this.derivatives.ops.get(op.id) ?? 0, 1) : 0;
  }

  private uses(): { writers: Map<number, number[]>; readers: Map<number, number[]> } {
    if (this.users === undefined) {
      this.users = { writers: new Map(), readers: new Map() };
      for (const op of this.ops.values()) {
        for (const value of new Set(reads(op))) push(this.users.readers, value, op.id);
        for (const value of new Set(writes(op))) push(this.users.writers, value, op.id);
      }
    }
    return this.users;
  }
}

/** What is said of a derivative of a derivative. */
export const ofOrder = (derivative: number): string => (derivative > 1 ? `, of order ${derivative}` : "");

/** The orders of derivatives, as drawings have them: one above that of what a value is the gradient of, and no less than that of any operand. */
class Derivatives {
  readonly ops = new Map<number, number>();
  private readonly values = new Map<number, number>();

  constructor(private readonly state: State) {
    this.visit(state.root, 0);
    this.lift(state.root);
  }

  /** ``around`` is the order of the loop or branch of the backward that a graph belongs to: whatever it runs is of that. */
  private visit(graph: number, around: number): void {
    for (const value of this.state.graphs.get(graph)?.inputs ?? []) this.values.set(value, around || this.above(value));
    for (const op of this.inOrder(graph)) {
      const isBackward = this.state.role(op) === BACKWARD;
      const operands = reads(op).map((value) => this.values.get(value) ?? 0);
      const results = isBackward ? writes(op).map((value) => this.above(value)) : [];
      const order = around || (op.role === OPTIMIZE ? 0 : Math.max(0, ...operands, ...results));
      this.ops.set(op.id, order);
      for (const value of writes(op)) this.values.set(value, around || Math.max(order, this.above(value)));
      for (const nested of op.graphs) this.visit(nested.graph, isBackward ? order : 0);
    }
  }

  /** What one order alone needs belongs to it, whatever it is computed from. */
  private lift(graph: number): void {
    for (const op of this.inOrder(graph).reverse()) {
      for (const nested of op.graphs) this.lift(nested.graph);
      const readers = writes(op).flatMap((value) => this.state.readers(value));
      if (this.state.role(op) !== BACKWARD || readers.length === 0 || writes(op).some((value) => this.above(value) > 0)) continue;
      this.ops.set(op.id, Math.max(this.ops.get(op.id) ?? 0, Math.min(...readers.map((reader) => this.ops.get(reader) ?? 0))));
    }
  }

  private inOrder(graph: number): Op[] {
    return this.state.order(graph).flatMap((id) => this.state.ops.get(id) ?? []);
  }

  private above(value: number): number {
    const of = this.state.values.get(value)?.gradientOf ?? NOTHING;
    return of === NOTHING ? 0 : 1 + (this.values.get(of) ?? 0);
  }
}

export function push<K, V>(table: Map<K, V[]>, key: K, item: V): void {
  const known = table.get(key);
  if (known === undefined) table.set(key, [item]);
  else known.push(item);
}

/** The states of a page, made on request. */
export class History {
  private readonly passes: State[] = [];
  private latest: { frame: number; rewrite: number; state: State } | undefined;

  constructor(readonly data: Data) {}

  /** The state after a pass; before the first one it is empty. */
  after(frame: number): State {
    if (frame < 0) return new State();
    if (this.passes[frame] === undefined) {
      const { delta, rewrites } = this.data.frames[frame]!;
      this.passes[frame] = this.applied(this.after(frame - 1), [...rewrites.map((rewrite) => rewrite[3]), delta]);
    }
    return this.passes[frame]!;
  }

  /** The state after some rewrites of a pass. After its last one it is that after the pass. */
  within(frame: number, rewrites: number): State {
    if (rewrites >= this.data.frames[frame]!.rewrites.length) return this.after(frame);
    if (rewrites <= 0) return this.after(frame - 1);
    if (this.latest?.frame !== frame || this.latest.rewrite !== rewrites) {
      const deltas = this.data.frames[frame]!.rewrites.slice(0, rewrites).map((rewrite) => rewrite[3]);
      this.latest = { frame, rewrite: rewrites, state: this.applied(this.after(frame - 1), deltas) };
    }
    return this.latest.state;
  }

  private applied(before: State, deltas: Delta[]): State {
    if (deltas.every((delta) => Object.keys(delta).length === 0)) return before;
    const [ops, values, graphs, orders] = [new Map(before.ops), new Map(before.values), new Map(before.graphs), new Map(before.orders)];
    const places = new Places(orders);
    let root = before.root;
    for (const delta of deltas) {
      for (const [id, record] of Object.entries(delta.v ?? {})) values.set(+id, this.value(+id, record));
      for (const [id, record] of Object.entries(delta.g ?? {})) {
        graphs.set(+id, this.graph(+id, record));
        if (record[0] === NOTHING) root = +id;
      }
      for (const [id, record] of Object.entries(delta.o ?? {})) ops.set(+id, this.op(+id, record));
      const after = delta.a ?? [];
      for (let i = 0; i < after.length; i += 2) places.insert(ops.get(after[i]!)?.graph ?? NOTHING, after[i]!, after[i + 1]!);
      for (const id of delta.x ?? []) for (const table of [ops, values, graphs, orders]) table.delete(id);
      for (const [id, runs] of Object.entries(delta.r ?? {})) places.reset(+id, spread(runs));
    }
    places.settle();
    for (const [id, order] of orders) if (order.some((op) => !ops.has(op))) orders.set(id, order.filter((op) => ops.has(op)));
    return new State(ops, values, graphs, orders, root);
  }

  private op(id: number, record: OpRecord): Op {
    const [type, role, attributes, inputs, outputs, graphs, forward, source, madeBy, origin, graph, scope] = record;
    const nested: Op["graphs"] = [];
    for (let i = 0; i < graphs.length; i += 2) nested.push({ name: this.text(graphs[i]!), graph: graphs[i + 1]! });
    return {
      id, type: this.text(type), role, attributes, inputs: this.slots(inputs), outputs: this.slots(outputs), graphs: nested, forward, source, madeBy,
      origin, graph, scope: this.text(scope), operands: record[12] ?? [], outcomes: record[13] ?? [], carried: record[14] ?? [0, 0],
    };
  }

  private slots(parts: (number | number[])[]): Slot[] {
    const slots: Slot[] = [];
    for (let i = 0; i < parts.length; i += 2) slots.push({ name: this.text(parts[i] as number), values: parts[i + 1] as number[] });
    return slots;
  }

  private value(id: number, record: ValueRecord): Value {
    const [name, version, type, marks, gradientOf, graph] = record;
    return { id, name: this.text(name), version, type: this.text(type), marks, gradientOf, graph, residual: record[6] ?? NOTHING };
  }

  private graph(id: number, [owner, name, inputs, results, residuals]: GraphRecord): Graph {
    return { id, owner, name: this.text(name), inputs, results, residuals };
  }

  text(number: number): string {
    return this.data.tables.texts[number] ?? "";
  }

  /** The attributes of an operator as pairs of texts. */
  attributes(number: number): [name: string, value: string][] {
    const parts = this.data.tables.attributes[number] ?? [];
    return parts.flatMap((part, i): [string, string][] => (i % 2 ? [] : [[this.text(part), this.text(parts[i + 1]!)]]));
  }
}

/** Orders of operators into which others are put; linked lists, so that a pass may put in many. */
class Places {
  private readonly following = new Map<number, Map<number, number>>();

  constructor(private readonly orders: Map<number, number[]>) {}

  insert(graph: number, op: number, previous: number): void {
    if (graph === NOTHING) return;
    const next = this.following.get(graph) ?? this.linked(graph);
    const at = next.has(previous) ? previous : NOTHING;
    next.set(op, next.get(at)!);
    next.set(at, op);
  }

  reset(graph: number, order: number[]): void {
    this.following.delete(graph);
    this.orders.set(graph, order);
  }

  settle(): void {
    for (const [graph, next] of this.following) {
      const order: number[] = [];
      for (let op = next.get(NOTHING)!; op !== NOTHING; op = next.get(op)!) order.push(op);
      this.orders.set(graph, order);
    }
  }

  private linked(graph: number): Map<number, number> {
    const next = new Map<number, number>();
    let last = NOTHING;
    for (const op of this.orders.get(graph) ?? []) {
      next.set(last, op);
      last = op;
    }
    next.set(last, NOTHING);
    this.following.set(graph, next);
    return next;
  }
}

function spread(runs: number[]): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < runs.length; i += 2) for (let k = 0; k < runs[i + 1]!; k++) numbers.push(runs[i]! + k);
  return numbers;
}
