// The program as text, as graphad prints it, with the lines of removed and changed operators among the others.

import type { Changes, Mark } from "./changes";
import { type History, type Op, shown, type Slot, type State } from "./state";

export interface Line {
  text: string;
  indent: number;
  op: number | null;
  mark: Mark | null;
  old: boolean; // the line before a change, or of an operator that is gone
}

/** All lines of a state; with those that its changes took away. */
export function linesOf(history: History, before: State, after: State, changes: Changes): Line[] {
  const lines: Line[] = [];
  if (after.root >= 0) new Printer(history, before, after, changes, lines).graph(after.root, "graph ", 0);
  return lines;
}

/** The operators of a graph in order, with those that are gone in their places. */
export function withGhosts(graph: number, before: State, after: State): number[] {
  const now = after.order(graph);
  const gone = before.order(graph).filter((op) => !after.ops.has(op));
  if (gone.length === 0) return now;
  const following = new Map<number, number[]>();
  let last = -1;
  for (const op of before.order(graph)) {
    if (after.ops.get(op)?.graph === graph) last = op;
    else if (!after.ops.has(op)) following.set(last, [...(following.get(last) ?? []), op]);
  }
  return [...(following.get(-1) ?? []), ...now.flatMap((op) => [op, ...(following.get(op) ?? [])])];
}

class Printer {
  constructor(
    private readonly history: History,
    private readonly before: State,
    private readonly after: State,
    private readonly changes: Changes,
    private readonly lines: Line[],
  ) {}

  graph(id: number, head: string, indent: number): void {
    const state = this.after.graphs.has(id) ? this.after : this.before;
    const graph = state.graphs.get(id);
    if (graph === undefined) return;
    const isOld = state !== this.after;
    const mark = isOld ? "removed" : null;
    this.lines.push({ text: `${head}(${graph.inputs.map((value) => this.input(state, value)).join(", ")}) {`, indent, op: null, mark, old: isOld });
    const order = isOld ? state.order(id) : withGhosts(id, this.before, this.after);
    for (const op of order) this.op(op, indent + 1);
    const tail = listed(" -> ", state, graph.results) + listed(", residuals ", state, graph.residuals);
    this.lines.push({ text: `}${tail}`, indent, op: null, mark, old: isOld });
  }

  private op(id: number, indent: number): void {
    const mark = this.changes.ops.get(id) ?? null;
    const [old, now] = [this.before.ops.get(id), this.after.ops.get(id)];
    if (old !== undefined && (mark === "changed" || mark === "removed")) {
      const text = this.printed(this.before, old);
      if (now === undefined || text !== this.printed(this.after, now)) this.lines.push({ text, indent, op: id, mark, old: true });
    }
    if (now !== undefined) this.lines.push({ text: this.printed(this.after, now), indent, op: id, mark, old: false });
    for (const { name, graph } of (now ?? old)!.graphs) this.graph(graph, `${name} `, indent + 1);
  }

  private printed(state: State, op: Op): string {
    const attributes = this.history.attributes(op.attributes).map(([name, value]) => `${name}=${value}`);
    const [read, written] = [op.inputs, op.outputs].map((slots, i) => slots.map((slot) => this.slot(state, slot, i === 1)).join(", "));
    return `${op.type}(${read}) -> (${written})${attributes.length ? ` {${attributes.join(", ")}}` : ""}`;
  }

  private slot(state: State, { name, values }: Slot, typed: boolean): string {
    const texts = values.map((value) => (typed ? this.typed(state, value) : shown(state.values.get(value))));
    return `${name}=${texts.length === 1 ? texts[0] : `[${texts.join(", ")}]`}`;
  }

  private input(state: State, value: number): string {
    const residual = state.values.get(state.values.get(value)?.residual ?? -1);
    return this.typed(state, value) + (residual === undefined ? "" : ` = residual ${shown(residual)}`);
  }

  private typed(state: State, value: number): string {
    return `${shown(state.values.get(value))}: ${state.values.get(value)?.type ?? "?"}`;
  }
}

function listed(before: string, state: State, values: number[]): string {
  return values.length ? `${before}(${values.map((value) => shown(state.values.get(value))).join(", ")})` : "";
}
