// The layout: boxes do not overlap, arrows go down, and up in the backward, partners are in one row; the same input gives the same places.

import assert from "node:assert/strict";
import test from "node:test";
import { Corridors } from "../src/corridors";
import { type Box, layered, type Link } from "../src/layout";

function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
}

function network(seed: number, count: number): { boxes: Box[]; links: Link[] } {
  const next = random(seed);
  const boxes = Array.from({ length: count }, (): Box => ({ w: 40 + Math.floor(next() * 160), h: 30 + Math.floor(next() * 40), side: 0, partner: -1, pin: null }));
  const links: Link[] = [];
  for (let to = 1; to < count; to++)
    for (let k = 0; k < 1 + Math.floor(next() * 2); k++) {
      const from = Math.max(0, to - 1 - Math.floor(next() * next() * 12));
      links.push({ from, to, value: from, isBack: false, fromAt: 0, toAt: 0 });
    }
  return { boxes, links };
}

/** The backward of a network: a box for each box, and the links turned round. */
function mirrored(seed: number, count: number): { boxes: Box[]; links: Link[] } {
  const { boxes, links } = network(seed, count);
  const back = boxes.map((box, i): Box => ({ ...box, side: 1, partner: i }));
  const turned = links.map((link): Link => ({ ...link, from: link.to + count, to: link.from + count, value: link.to + count }));
  const saved = boxes.map((_, i): Link => ({ from: i, to: i + count, value: i, isBack: false, fromAt: 0, toAt: 0 }));
  return { boxes: [...boxes, ...back], links: [...links, ...turned, ...saved] };
}

function assertApart(boxes: Box[], places: { x: number; y: number }[]): void {
  places.forEach((a, i) =>
    places.forEach((b, j) => {
      if (j <= i) return;
      const isApart = a.x + boxes[i]!.w <= b.x + 0.5 || b.x + boxes[j]!.w <= a.x + 0.5 || a.y + boxes[i]!.h <= b.y + 0.5 || b.y + boxes[j]!.h <= a.y + 0.5;
      assert.ok(isApart, `boxes ${i} and ${j} overlap`);
    }),
  );
}

test("boxes do not overlap, and arrows go down", () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { boxes, links } = network(seed, 5 + seed * 2);
    const placed = layered(boxes, links);
    assertApart(boxes, placed.boxes);
    for (const { from, to } of links) assert.ok(placed.boxes[from]!.y + boxes[from]!.h < placed.boxes[to]!.y);
  }
});

test("the backward is beside the forward, its arrows go up, and partners are in one row", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const count = 5 + seed;
    const { boxes, links } = mirrored(seed, count);
    const placed = layered(boxes, links);
    assertApart(boxes, placed.boxes);
    const middle = (i: number): number => placed.boxes[i]!.y + boxes[i]!.h / 2;
    for (let i = 0; i < count; i++) assert.ok(Math.abs(middle(i) - middle(i + count)) < 0.5, `partners ${i}`);
    for (const { from, to } of links.filter((link) => link.from >= count)) assert.ok(middle(from) > middle(to));
    const near = (i: number, k: number): boolean => placed.boxes[i]!.y < placed.boxes[k]!.y + boxes[k]!.h && placed.boxes[k]!.y < placed.boxes[i]!.y + boxes[i]!.h;
    for (let i = 0; i < count; i++) for (let k = count; k < 2 * count; k++) assert.ok(!near(i, k) || placed.boxes[k]!.x > placed.boxes[i]!.x + boxes[i]!.w + 50);
  }
});

test("an arrow begins and ends at its boxes", () => {
  const { boxes, links } = mirrored(3, 12);
  const placed = layered(boxes, links);
  links.forEach(({ from, to }, i) => {
    const route = placed.routes[i]!;
    for (const [node, point] of [[from, route[0]!], [to, route.at(-1)!]] as const) {
      const [place, box] = [placed.boxes[node]!, boxes[node]!];
      assert.ok(point.x >= place.x - 0.5 && point.x <= place.x + box.w + 0.5 && point.y >= place.y - 0.5 && point.y <= place.y + box.h + 0.5);
    }
  });
});

test("a cycle, a loop to itself and nothing at all are laid out", () => {
  const box = (): Box => ({ w: 50, h: 20, side: 0, partner: -1, pin: null });
  const link = (from: number, to: number): Link => ({ from, to, value: from, isBack: false, fromAt: 0, toAt: 0 });
  const boxes = [box(), box(), box()];
  assertApart(boxes, layered(boxes, [link(0, 1), link(1, 2), link(2, 0), link(1, 1)]).boxes);
  assert.deepEqual(layered([], []), { boxes: [], routes: [], width: 0, height: 0 });
});

test("the same input gives the same places", () => {
  const { boxes, links } = mirrored(7, 40);
  assert.deepEqual(layered(boxes, links), layered(boxes, links));
});

test("2,000 boxes are laid out within seconds", () => {
  const { boxes, links } = network(5, 2000);
  const start = performance.now();
  layered(boxes, links);
  assert.ok(performance.now() - start < 10_000); // a quarter of a second on a machine with nothing else to do
});

test("lines from side to side pass around what is between, each on its own", () => {
  const areas = Array.from({ length: 8 }, (_, i) => ({ left: 100 + 80 * i, top: 40, right: 150 + 80 * i, bottom: 80 }));
  const corridors = new Corridors(areas);
  assert.deepEqual(corridors.way({ x: 50, y: 200 }, { x: 900, y: 220 }).length, 2);
  const ways = [0, 1, 2].map(() => corridors.way({ x: 50, y: 60 }, { x: 900, y: 60 }));
  const heights = ways.map((way) => way[1]!.y);
  assert.equal(new Set(heights).size, 3);
  for (const way of ways) {
    assert.equal(way[1]!.y, way[2]!.y);
    assert.ok(way[1]!.y < 40 || way[1]!.y > 80);
    assert.deepEqual([way[0], way.at(-1)], [{ x: 50, y: 60 }, { x: 900, y: 60 }]);
  }
});
