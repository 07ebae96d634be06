// States made of what steps changed, repetition, search words, the address.

import assert from "node:assert/strict";
import test from "node:test";
import { read, written } from "../src/address";
import { changesBetween } from "../src/changes";
import type { Data, Frame } from "../src/data";
import { find } from "../src/search";
import { History } from "../src/state";
import { cuts } from "../src/parts";
import { bestRepetition, byBranches, folded, type Unit } from "../src/repeats";

const frame = (parts: Partial<Frame>): Frame => ({
  name: "", text: "", doc: "", ms: 0, line: -1, ops: [0, 0], values: [0, 0], count: 0, error: "", delta: {}, costs: {}, totals: [], rewrites: [], ...parts,
});

// x ─▶ tanh ─▶ y, then a second tanh between the two, then the first one gone
const TEXTS = ["tanh", "X", "Out", "x", "y", "t", "float32[3, 4, 2]", "exp"];
const op = (type: number, from: number, to: number): [number, number, number, (number | number[])[], (number | number[])[], number[], number, number, number, number, number, number] => [
  type, 0, -1, [1, [from]], [2, [to]], [], -1, -1, -1, -1, 0, -1,
];
const data: Data = {
  title: "", watched: false, note: "", values: {},
  tables: { texts: TEXTS, attributes: [], lines: [], files: {}, origins: [] },
  frames: [
    frame({ delta: { g: { 0: [-1, -1, [1], [], []] }, v: { 1: [3, -1, 6, 1, -1, 0], 2: [4, -1, 6, 0, -1, 0] }, o: { 3: op(0, 1, 2) }, r: { 0: [3, 1] } } }),
    frame({
      rewrites: [[7, [3], -1, { v: { 4: [5, -1, 6, 0, -1, 0] }, o: { 5: op(7, 1, 4), 3: op(0, 4, 2) }, a: [5, -1] }]],
      delta: { r: { 0: [5, 1, 3, 1] } },
    }),
    frame({ delta: { x: [3], o: { 5: op(7, 1, 2) }, r: { 0: [5, 1] } } }),
    frame({ delta: { v: { 2: [5, 1, 6, 0, -1, 0] } } }),
  ],
};

test("states follow from what steps changed", () => {
  const history = new History(data);
  assert.deepEqual(history.after(0).order(0), [3]);
  assert.deepEqual(history.within(1, 1).order(0), [5, 3]);
  assert.deepEqual(history.after(1).order(0), [5, 3]);
  assert.deepEqual(history.after(2).order(0), [5]);
  assert.deepEqual(history.after(1).writers(4), [5]);
  assert.deepEqual(history.after(1).readers(4), [3]);
  assert.deepEqual(history.after(0).order(0), [3], "an earlier state stays as it was");
});

test("changes are those of operators, not of names", () => {
  const history = new History(data);
  const marks = (frame: number): unknown => Object.fromEntries(changesBetween(history.after(frame - 1), history.after(frame)).ops);
  assert.deepEqual(marks(1), { 3: "changed", 5: "added" });
  assert.deepEqual(marks(2), { 3: "removed", 5: "changed" });
  assert.deepEqual(marks(3), {}, "a value got another name and number");
});

/** Operators named by letters, each of which reads the one so many places before, or nothing (0). */
const chained = (tokens: string[], back: (i: number) => number[] = () => [1]): Unit[] =>
  tokens.map((token, i) => ({ token, weight: 1, sources: back(i).map((distance) => (distance > 0 && distance <= i ? i - distance : -1)) }));

test("the longest repetition is found", () => {
  const layer = ["a", "b", "b", "c", "d", "e"];
  const tokens = ["x", ...layer, ...layer, ...layer, ...layer, "y"];
  assert.deepEqual(bestRepetition(chained(tokens)), { start: 1, period: 6, count: 4 });
  assert.deepEqual(bestRepetition(chained(Array.from({ length: 20 }, () => "s"))), { start: 0, period: 1, count: 20 });
  assert.equal(bestRepetition(chained(["a", "b", "c", "a", "b", "d"])), null);
  assert.equal(bestRepetition([]), null);
});

test("copies that read one another differently are not folded", () => {
  const tokens = Array.from({ length: 6 }, () => ["a", "b", "c"]).flat();
  assert.deepEqual(bestRepetition(chained(tokens)), { start: 0, period: 3, count: 6 });
  assert.equal(bestRepetition(chained(tokens, (i) => [1, (i * 7) % 5])), null);
});

test("a repetition begins where the fewest values go from one layer to the next", () => {
  const layer = ["norm", "mul", "add", "relu", "add"]; // the last one reads what the norm reads, too
  const units = chained(["x", ...layer, ...layer, ...layer, ...layer, ...layer.slice(0, 4)], (i) => (i % 5 === 0 ? [1, 5] : [1]));
  assert.deepEqual(bestRepetition(units), { start: 1, period: 5, count: 4 });
});

test("branches side by side are folded as if they were one after the other", () => {
  const count = 12;
  const sources = [[], ...Array.from({ length: count }, () => [0]), ...Array.from({ length: count }, (_, i) => [1 + i]), Array.from({ length: count }, (_, i) => count + 1 + i)];
  const units = sources.map((from, i): Unit => ({ token: i === 0 ? "x" : i <= count ? "tanh" : i <= 2 * count ? "exp" : "sum", weight: 1, sources: from }));
  assert.deepEqual(byBranches(units).slice(0, 5), [0, 1, 13, 2, 14]);
  const { run, order } = folded(units);
  assert.deepEqual([run!.start, run!.period, run!.count], [1, 2, 12]);
  assert.deepEqual(order, byBranches(units));
});

test("what does not repeat is cut where the fewest values go across", () => {
  const count = 254;
  const cluster = (i: number): number => Math.floor((i - 4) / 25); // within one, operators read those 1, 2 and 5 before; across, only the last one
  const units = chained(Array.from({ length: count }, (_, i) => `t${i}`), (i) => [1, 2, 5].filter((back) => back === 1 || cluster(i - back) === cluster(i)));
  assert.deepEqual(cuts(units), [29, 54, 79, 104, 129, 154, 179, 204, 229]);
  assert.deepEqual(cuts(units.slice(0, 20)), []);
});

test("search finds operators first by type, and values by name and shape", () => {
  const state = new History(data).after(1);
  const history = new History(data);
  assert.equal(find(history, state, "tanh")[0]?.op, 3);
  assert.equal(find(history, state, "T")[0]?.title, "t");
  for (const query of ["float32[3, 4, 2]", "[3,4,2]", "[3, 4", "t [3, 4, 2]"]) assert.ok(find(history, state, query).length >= 1, query);
  for (const query of ["[2, 3, 4]", "[3, 2]"]) assert.deepEqual(find(history, state, query), [], `${query}: extents have an order`);
  assert.deepEqual(find(history, state, "tanh nothing"), []);
});

test("an address that was written is read back; any text is read", () => {
  const address = { pass: 2, step: 3, selection: "o14", view: { x: 10, y: -20, scale: 0.8 }, color: "time", groups: new Map([["x3", true], ["s0:/a/b:1", false]]) };
  assert.deepEqual(read(written(address)), address);
  assert.equal(read("#pass=1&zoom=2").view?.scale, 2);
  for (const text of ["", "#", "#pass=two&zoom=-1&sel=%zz&groups=,-", "#pass"]) assert.ok(Number.isInteger(read(text).pass));
});
