// Search: operators and values by name, type, attribute and shape, the best match first.

import type { History, Op, State, Value } from "./state";
import { shown, writes } from "./state";

export interface Hit {
  op: number; // the operator, or the one that writes the value
  value: number; // -1 for an operator
  title: string;
  note: string;
  score: number;
}

const MOST = 50;
const WORD = /(?:[^\s[]|\[[^\]]*\]?)+/g; // what is in brackets, as in [-1, 8], is one word

/** The operators and values that have all the words of a query, in a name, a type, an attribute or a shape. */
export function find(history: History, state: State, query: string): Hit[] {
  const words = (query.toLowerCase().match(WORD) ?? []).map(withoutSpaces);
  if (words.length === 0) return [];
  const hits: Hit[] = [];
  for (const op of state.ops.values()) {
    const score = total(words, opFields(history, state, op));
    if (score > 0) hits.push({ op: op.id, value: -1, title: op.type, note: writes(op).map((value) => shown(state.values.get(value))).join(", "), score: score + 0.5 });
  }
  for (const value of state.values.values()) {
    const score = total(words, valueFields(value));
    if (score > 0) hits.push({ op: state.writers(value.id)[0] ?? state.readers(value.id)[0] ?? -1, value: value.id, title: shown(value), note: value.type, score });
  }
  return hits.sort((a, b) => b.score - a.score || a.op - b.op || a.value - b.value).slice(0, MOST);
}

type Fields = [text: string, weight: number][];

function opFields(history: History, state: State, op: Op): Fields {
  const attributes = history.attributes(op.attributes).map(([name, value]): [string, number] => [`${name}=${value}`, 2]);
  const results = writes(op).flatMap((id): Fields => {
    const value = state.values.get(id);
    return value === undefined ? [] : [[shown(value), 3], [value.type, 1]];
  });
  return [[op.type, 10], [op.scope, 2], ...results, ...attributes];
}

const valueFields = (value: Value): Fields => [[shown(value), 8], [value.type, 3]];
const withoutSpaces = (text: string): string => text.replaceAll(" ", "");

/** The sum over the words of how well each fits its best field; 0 where one fits none. */
function total(words: string[], fields: Fields): number {
  let sum = 0;
  for (const word of words) {
    let best = 0;
    for (const [text, weight] of fields) best = Math.max(best, weight * fit(withoutSpaces(text.toLowerCase()), word));
    if (best === 0) return 0;
    sum += best;
  }
  return sum;
}

function fit(text: string, word: string): number {
  if (text === word) return 4;
  const at = text.indexOf(word);
  if (at < 0) return 0;
  return at === 0 ? 2 + word.length / text.length : 1 + word.length / text.length;
}
