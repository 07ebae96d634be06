// A layered layout after Sugiyama, Tagawa and Toda (1981), for one level of a nested drawing.
//
// The backward is mirrored: an operator of the backward has the rank of the operator of the forward that it belongs to, and its arrows go up.
// The two sides, and a third for the optimizer, are ordered and placed apart and put side by side; arrows between them are curves of their own.

export interface Point {
  x: number;
  y: number;
}

export interface Box {
  w: number;
  h: number;
  side: number; // 0: its arrows go down; 1, 2: up, in a column of its own
  partner: number; // the box of the forward that it belongs to, or -1
  pin: "top" | "bottom" | null; // values that enter or leave at the frame
}

export interface Link {
  from: number;
  to: number;
  value: number; // links with one origin and value share their way
  isBack: boolean; // around in a loop: drawn against the direction
  fromAt: number; // where it begins and ends, from the middle of the boxes
  toAt: number;
}

export interface Placement {
  boxes: Point[]; // upper left corners
  routes: Point[][];
  width: number;
  height: number;
}

const GAP_X = 26;
const GAP_DUMMY = 12;
const GAP_Y = 34;
const GAP_SIDE = 90;
const FAR = 24; // ranks beyond which an arrow is a curve instead of finding its way
const SWEEPS = 14;
const COUNTED = 6000; // boxes and dummies up to which crossings are counted, to keep the best order
const ROUNDS = 10;

export function layered(boxes: Box[], links: Link[]): Placement {
  if (boxes.length === 0) return { boxes: [], routes: [], width: 0, height: 0 };
  return new Layers(boxes, links).placement();
}

/** The two ends of a link in drawing order. */
interface Ends {
  upper: number;
  lower: number;
  isDirect: boolean; // it is drawn as one curve, without finding its way between boxes
  isFree: boolean; // no order between the two
}

interface Net {
  up: number[][];
  down: number[][];
}

class Layers {
  private readonly ends: Ends[];
  private readonly rank: Int32Array;
  private readonly sides: number[];
  private readonly widths: number[];
  private readonly chains: number[][]; // by link, the dummies on its way from above to below
  private readonly ranks: number[]; // of boxes and dummies
  private readonly net: Net = { up: [], down: [] };
  private readonly x: number[];

  constructor(
    private readonly boxes: Box[],
    private readonly links: Link[],
  ) {
    this.ends = links.map((link) => this.endsOf(link));
    this.rank = ranksOf(boxes, this.ends);
    for (const end of this.ends) end.isDirect ||= this.rank[end.lower]! - this.rank[end.upper]! < 1 || this.rank[end.lower]! - this.rank[end.upper]! > FAR;
    this.sides = boxes.map((box) => box.side);
    this.widths = boxes.map((box) => box.w);
    this.ranks = [...this.rank];
    this.chains = this.addDummies();
    this.x = new Array<number>(this.ranks.length).fill(0);
  }

  private endsOf({ from, to, isBack }: Link): Ends {
    const [a, b] = [this.boxes[from]!.side, this.boxes[to]!.side];
    const goesUp = (a > 0 && b > 0) !== isBack;
    return { upper: goesUp ? to : from, lower: goesUp ? from : to, isDirect: a !== b, isFree: a > 0 !== b > 0 };
  }

  // -- dummies ------------------------------------------------------------------------------------

  private addDummies(): number[][] {
    const shared = new Map<string, number>();
    this.net.up = this.boxes.map(() => []);
    this.net.down = this.boxes.map(() => []);
    return this.links.map((link, i) => {
      const { upper, lower, isDirect } = this.ends[i]!;
      if (isDirect) return [];
      const chain: number[] = [];
      for (let rank = this.rank[upper]! + 1; rank < this.rank[lower]!; rank++) {
        const key = `${link.from} ${link.value} ${rank} ${link.isBack}`;
        chain.push(shared.get(key) ?? this.dummy(rank, this.sides[upper]!));
        shared.set(key, chain.at(-1)!);
      }
      const way = [upper, ...chain, lower];
      for (let k = 1; k < way.length; k++) this.connect(way[k - 1]!, way[k]!);
      return chain;
    });
  }

  private dummy(rank: number, side: number): number {
    this.ranks.push(rank);
    this.sides.push(side);
    this.widths.push(0);
    this.net.up.push([]);
    this.net.down.push([]);
    return this.ranks.length - 1;
  }

  private connect(upper: number, lower: number): void {
    if (this.net.down[upper]!.includes(lower)) return;
    this.net.down[upper]!.push(lower);
    this.net.up[lower]!.push(upper);
  }

  private isDummy(node: number): boolean {
    return node >= this.boxes.length;
  }

  // -- positions ----------------------------------------------------------------------------------

  placement(): Placement {
    const reached = new Array<number>(Math.max(...this.ranks) + 1).fill(-Infinity); // by rank, how far the sides before go to the right
    for (const side of [...new Set(this.sides)].sort((a, b) => a - b)) {
      const nodes = this.ranks.map((_, node) => node).filter((node) => this.sides[node] === side);
      const layers = this.ordered(nodes);
      this.spread(layers);
      this.shift(nodes, reached);
    }
    const { tops, heights } = this.rows();
    const corner = (node: number): Point => ({ x: this.x[node]! - this.widths[node]! / 2, y: tops[this.ranks[node]!]! + this.drop(node, heights) });
    const boxes = this.boxes.map((_, node) => corner(node));
    const routes = this.links.map((link, i) => this.route(link, i, boxes, tops, heights));
    return { boxes, routes, width: Math.max(...reached), height: tops.at(-1)! + heights.at(-1)! };
  }

  /** By how much a box is below the top of its row: it is in the middle. */
  private drop(node: number, heights: number[]): number {
    const { h, pin } = this.boxes[node]!;
    const free = heights[this.ranks[node]!]! - h;
    return pin === "top" ? 0 : pin === "bottom" ? free : free / 2;
  }

  private rows(): { tops: number[]; heights: number[] } {
    const heights = new Array<number>(Math.max(...this.rank) + 1).fill(0);
    const crossing = new Array<number>(heights.length).fill(0);
    this.boxes.forEach((box, node) => (heights[this.rank[node]!] = Math.max(heights[this.rank[node]!]!, box.h)));
    for (const { upper, lower, isDirect } of this.ends) if (!isDirect) for (let rank = this.rank[upper]!; rank < this.rank[lower]!; rank++) crossing[rank]!++;
    const tops: number[] = [0];
    for (let rank = 1; rank < heights.length; rank++) {
      const gap = heights[rank - 1] === 0 || heights[rank] === 0 ? GAP_Y / 2 : GAP_Y + Math.min(crossing[rank - 1]!, 12) * 1.5;
      tops.push(tops[rank - 1]! + heights[rank - 1]! + gap);
    }
    return { tops, heights };
  }

  /** Move a side next to those before: as near as the rows, and those above and below them, leave room. */
  private shift(nodes: number[], reached: number[]): void {
    const left = nodes.reduce((least, node) => Math.min(least, this.x[node]! - this.widths[node]! / 2), Infinity);
    let offset = -left;
    for (const node of nodes) {
      const rank = this.ranks[node]!;
      const taken = Math.max(reached[rank - 1] ?? -Infinity, reached[rank]!, reached[rank + 1] ?? -Infinity);
      offset = Math.max(offset, taken + GAP_SIDE - (this.x[node]! - this.widths[node]! / 2));
    }
    for (const node of nodes) this.x[node]! += offset;
    for (const node of nodes) reached[this.ranks[node]!] = Math.max(reached[this.ranks[node]!]!, this.x[node]! + this.widths[node]! / 2);
  }

  // -- order within ranks -------------------------------------------------------------------------

  private ordered(nodes: number[]): number[][] {
    const layers: number[][] = Array.from({ length: Math.max(...this.ranks) + 1 }, () => []);
    const isSeen = new Set<number>();
    const visit = (start: number): void => {
      const stack = [start];
      while (stack.length) {
        const node = stack.pop()!;
        if (isSeen.has(node)) continue;
        isSeen.add(node);
        layers[this.ranks[node]!]!.push(node);
        for (const next of [...this.net.down[node]!].reverse()) stack.push(next);
      }
    };
    for (const node of [...nodes].sort((a, b) => this.ranks[a]! - this.ranks[b]! || a - b)) visit(node);
    return this.uncrossed(layers);
  }

  private uncrossed(layers: number[][]): number[][] {
    const counts = this.ranks.length < COUNTED;
    const sweeps = counts ? SWEEPS : SWEEPS / 2;
    const place = new Float64Array(this.ranks.length);
    const wish = new Float64Array(this.ranks.length);
    const note = (layer: number[]): void => layer.forEach((node, i) => (place[node] = i));
    layers.forEach(note);
    let best = layers.map((layer) => [...layer]);
    let least = counts ? this.crossings(best, place) : Infinity;
    for (let sweep = 0; sweep < sweeps && least > 0; sweep++) {
      const goesDown = sweep % 2 === 0;
      for (let k = 0; k < layers.length; k++) {
        const layer = layers[goesDown ? k : layers.length - 1 - k]!;
        if (layer.length < 2) continue;
        for (const node of layer) wish[node] = median(goesDown ? this.net.up[node]! : this.net.down[node]!, place, place[node]!);
        layer.sort((a, b) => wish[a]! - wish[b]! || place[a]! - place[b]!);
        note(layer);
      }
      const now = counts ? this.crossings(layers, place) : least;
      if (!counts || now < least) [best, least] = [layers.map((layer) => [...layer]), now];
    }
    return best;
  }

  private crossings(layers: number[][], place: Float64Array): number {
    let count = 0;
    const ends: number[] = [];
    for (let k = 0; k + 1 < layers.length; k++) {
      if (layers[k]!.length < 2 || layers[k + 1]!.length < 2) continue;
      ends.length = 0;
      for (const node of layers[k]!) {
        const below = this.net.down[node]!;
        if (below.length === 1) ends.push(place[below[0]!]!);
        else ends.push(...below.map((next) => place[next]!).sort((a, b) => a - b));
      }
      count += inversions(ends, layers[k + 1]!.length);
    }
    return count;
  }

  // -- coordinates --------------------------------------------------------------------------------

  /** Each row in turn moves to the middle of what it is joined to, as far as the order leaves room. */
  private spread(layers: number[][]): void {
    for (const layer of layers) {
      let at = 0;
      for (const [i, node] of layer.entries()) this.x[node] = at += i ? this.apart(layer[i - 1]!, node) : 0;
    }
    const at = new Float64Array(this.ranks.length);
    const weight = new Float64Array(this.ranks.length);
    for (let round = 0; round < ROUNDS; round++) {
      const isLast = round >= ROUNDS - 2;
      for (let k = 0; k < layers.length; k++) {
        const layer = layers[round % 2 ? layers.length - 1 - k : k]!;
        for (const node of layer) {
          [at[node], weight[node]] = [0, 0];
          if (isLast || round % 2 === 0) this.pull(node, this.net.up[node]!, at, weight);
          if (isLast || round % 2 === 1) this.pull(node, this.net.down[node]!, at, weight);
          if (weight[node]! > 0) at[node]! /= weight[node]!;
          else [at[node], weight[node]] = [this.x[node]!, 0.05];
        }
        this.settle(layer, at, weight);
      }
    }
  }

  private apart(left: number, right: number): number {
    const gap = this.isDummy(left) && this.isDummy(right) ? GAP_DUMMY : this.isDummy(left) || this.isDummy(right) ? (GAP_X + GAP_DUMMY) / 2 : GAP_X;
    return (this.widths[left]! + this.widths[right]!) / 2 + gap;
  }

  /** Add up where others draw a node to. */
  private pull(node: number, others: number[], at: Float64Array, weight: Float64Array): void {
    for (const other of others) {
      const pull = this.isDummy(node) && this.isDummy(other) ? 8 : this.isDummy(node) || this.isDummy(other) ? 2 : 1;
      at[node]! += pull * this.x[other]!;
      weight[node]! += pull;
    }
  }

  /** Least squares with the distances as constraints: isotonic regression by pooling adjacent violators (Barlow et al. 1972). */
  private settle(layer: number[], wished: Float64Array, weights: Float64Array): void {
    if (layer.length === 1) {
      this.x[layer[0]!] = wished[layer[0]!]!;
      return;
    }
    const shifts: number[] = [];
    const pools: { sum: number; weight: number; count: number }[] = [];
    layer.forEach((node, i) => {
      shifts.push(i ? shifts[i - 1]! + this.apart(layer[i - 1]!, node) : 0);
      const [at, weight] = [wished[node]!, weights[node]!];
      pools.push({ sum: (at - shifts[i]!) * weight, weight, count: 1 });
      while (pools.length > 1 && pools.at(-2)!.sum / pools.at(-2)!.weight >= pools.at(-1)!.sum / pools.at(-1)!.weight) {
        const last = pools.pop()!;
        const pool = pools.at(-1)!;
        pool.sum += last.sum;
        pool.weight += last.weight;
        pool.count += last.count;
      }
    });
    let i = 0;
    for (const pool of pools) for (let k = 0; k < pool.count; k++, i++) this.x[layer[i]!] = pool.sum / pool.weight + shifts[i]!;
  }

  // -- routes -------------------------------------------------------------------------------------

  /** The points of an arrow from its origin to its end. */
  private route(link: Link, i: number, boxes: Point[], tops: number[], heights: number[]): Point[] {
    const { upper, lower, isDirect } = this.ends[i]!;
    const isDown = upper === link.from;
    const at = (node: number): number => this.x[node]! + (node === link.from ? link.fromAt : link.toAt);
    if (isDirect && this.rank[upper] === this.rank[lower] && link.from !== link.to) return this.across(link, boxes);
    const start = { x: at(upper), y: boxes[upper]!.y + this.boxes[upper]!.h };
    const end = { x: at(lower), y: boxes[lower]!.y };
    const points = [start, { x: start.x, y: tops[this.rank[upper]!]! + heights[this.rank[upper]!]! }];
    for (const node of this.chains[i]!) {
      const rank = this.ranks[node]!;
      points.push({ x: this.x[node]!, y: tops[rank]! }, { x: this.x[node]!, y: tops[rank]! + heights[rank]! });
    }
    points.push({ x: end.x, y: tops[this.rank[lower]!]! }, end);
    return isDown ? points : points.reverse();
  }

  /** Between two boxes of one row: from side to side. */
  private across({ from, to }: Link, boxes: Point[]): Point[] {
    const isRight = this.x[to]! > this.x[from]!;
    const point = (node: number, isRightEnd: boolean): Point => ({
      x: this.x[node]! + (isRightEnd ? 0.5 : -0.5) * this.widths[node]!,
      y: boxes[node]!.y + this.boxes[node]!.h / 2,
    });
    return [point(from, isRight), point(to, !isRight)];
  }
}

/** The middle of the places of some nodes; of two middles the mean. Without nodes the place that there is. */
function median(around: number[], place: Float64Array, own: number): number {
  if (around.length === 0) return own;
  if (around.length === 1) return place[around[0]!]!;
  if (around.length === 2) return (place[around[0]!]! + place[around[1]!]!) / 2;
  const places = around.map((node) => place[node]!).sort((a, b) => a - b);
  const middle = places.length >> 1;
  return places.length % 2 ? places[middle]! : (places[middle - 1]! + places[middle]!) / 2;
}

function inversions(numbers: number[], size: number): number {
  const tree = new Int32Array(size + 1);
  let count = 0;
  numbers.forEach((number, i) => {
    let smaller = 0;
    for (let k = number + 1; k > 0; k -= k & -k) smaller += tree[k]!;
    count += i - smaller;
    for (let k = number + 1; k <= size; k += k & -k) tree[k]!++;
  });
  return count;
}

// -- ranks -----------------------------------------------------------------------------------------

/** Longest paths from above; what has nothing above it comes down to what reads it. */
function ranksOf(boxes: Box[], ends: Ends[]): Int32Array {
  const leader = boxes.map((box, i) => (box.partner >= 0 && boxes[box.partner]!.side === 0 ? box.partner : i));
  const taken = new Set<number>();
  leader.forEach((other, i) => {
    if (other !== i && taken.has(other)) leader[i] = i;
    else if (other !== i) taken.add(other);
  });
  const below: number[][] = boxes.map(() => []);
  for (const { upper, lower, isFree } of ends) if (!isFree && leader[upper] !== leader[lower]) below[leader[upper]!]!.push(leader[lower]!);
  const order = topological(below);
  const rank = new Int32Array(boxes.length);
  const hasAbove = new Uint8Array(boxes.length);
  for (const node of order)
    for (const next of below[node]!) {
      rank[next] = Math.max(rank[next]!, rank[node]! + 1);
      if (boxes[node]!.pin === null) hasAbove[next] = 1;
    }
  for (const node of [...order].reverse())
    if (!hasAbove[node] && boxes[node]!.pin === null && below[node]!.some((next) => boxes[next]!.pin === null)) rank[node] = Math.min(...below[node]!.filter((next) => boxes[next]!.pin === null).map((next) => rank[next]!)) - 1;
  leader.forEach((other, i) => (rank[i] = rank[other]!));
  return pinned(boxes, rank);
}

/** What enters comes first, what leaves last. */
function pinned(boxes: Box[], rank: Int32Array): Int32Array {
  const inner = boxes.flatMap((box, i) => (box.pin === null ? [rank[i]!] : []));
  const [first, last] = inner.length ? [Math.min(...inner), Math.max(...inner)] : [0, -1];
  boxes.forEach((box, i) => {
    if (box.pin === "top") rank[i] = first - 1;
    if (box.pin === "bottom") rank[i] = last + 1;
  });
  const least = rank.reduce((a, b) => Math.min(a, b), Infinity);
  const used = [...new Set(rank)].sort((a, b) => a - b);
  const dense = new Map(used.map((each, i) => [each, i]));
  return least === Infinity ? rank : rank.map((each) => dense.get(each)!);
}

/** An order in which links go forward; those that close a cycle are taken out of ``below``. */
function topological(below: number[][]): number[] {
  const state = new Uint8Array(below.length); // 1: on the way, 2: done
  const order: number[] = [];
  for (let start = 0; start < below.length; start++) {
    if (state[start]) continue;
    const stack: [number, number][] = [[start, 0]];
    state[start] = 1;
    while (stack.length) {
      const top = stack.at(-1)!;
      const [node, i] = top;
      const next = below[node]![i];
      if (next === undefined) {
        state[node] = 2;
        order.push(node);
        stack.pop();
      } else if (state[next] === 1) below[node]!.splice(i, 1);
      else {
        top[1]++;
        if (!state[next]) {
          state[next] = 1;
          stack.push([next, 0]);
        }
      }
    }
  }
  return order.reverse();
}
