// What is different between two states. Operators and values are the same if they have the same number, whatever they are called by then.

import { reads, type Op, type State, writes } from "./state";

export type Mark = "added" | "removed" | "changed";

export interface Changes {
  ops: Map<number, Mark>;
  counts: Record<Mark, number>;
}

export const NO_CHANGES: Changes = { ops: new Map(), counts: { added: 0, removed: 0, changed: 0 } };

export function changesBetween(before: State, after: State): Changes {
  if (before === after) return NO_CHANGES;
  const changes: Changes = { ops: new Map(), counts: { added: 0, removed: 0, changed: 0 } };
  const mark = (id: number, as: Mark): void => {
    changes.ops.set(id, as);
    changes.counts[as]++;
  };
  for (const op of after.ops.values()) {
    const old = before.ops.get(op.id);
    if (old === undefined) mark(op.id, "added");
    else if (!isSame(old, op, before, after)) mark(op.id, "changed");
  }
  for (const op of before.ops.values()) if (!after.ops.has(op.id)) mark(op.id, "removed");
  return changes;
}

/** Whether an operator is as it was: what values are called does not count. */
function isSame(old: Op, op: Op, before: State, after: State): boolean {
  if (old !== op && (old.type !== op.type || old.attributes !== op.attributes || old.role !== op.role || !hasSameSlots(old, op))) return false;
  if (!op.graphs.every(({ graph }) => hasSameBounds(graph, before, after))) return false;
  return writes(op).every((value) => before.values.get(value)?.type === after.values.get(value)?.type);
}

function hasSameSlots(old: Op, op: Op): boolean {
  const key = (each: Op): string => JSON.stringify([each.inputs, each.outputs]);
  return key(old) === key(op);
}

function hasSameBounds(graph: number, before: State, after: State): boolean {
  const key = (state: State): string => JSON.stringify([state.graphs.get(graph)?.inputs, state.graphs.get(graph)?.results]);
  return key(before) === key(after);
}

/** The operators that touch a value, or another operator by a value: what is highlighted around it. */
export function neighbors(state: State, op: Op): { producers: Set<number>; consumers: Set<number> } {
  return {
    producers: new Set(reads(op).flatMap((value) => state.writers(value))),
    consumers: new Set(writes(op).flatMap((value) => state.readers(value))),
  };
}
