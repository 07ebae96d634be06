// Repetition in a sequence of operators: the run of neighbors that folds most, in which each copy reads those before it in the same way.
//
//     mul add tanh mul add tanh mul add tanh    ⇒    3 × (mul add tanh)
//
// The runs are tandem repeats, found by comparing the sequence with itself at the distances at which equal operators come again.

/** An operator, or a closed group, in a sequence. */
export interface Unit {
  token: string; // what it has in common with its counterparts in other copies
  weight: number; // how much is spared if it is not drawn
  sources: number[]; // the places in the sequence that its operands come from, -1 for elsewhere
}

export interface Repetition {
  start: number;
  period: number;
  count: number;
}

interface Run extends Repetition {
  end: number; // up to where the sequence goes on like this
  gain: number;
}

const WORTH = 6; // a run that spares no more is no group
const ALONE = 3; // of copies of one operator there are to be more
const SCOPES = 2; // of copies of closed groups, too
const TRIED = 60;
const TURNS = 64;
const NEAR = 12; // equal tokens that one is compared with
const PERIODS = 120;
const [BETTER, MUCH] = [1.5, 20]; // what another order has to spare to be worth it: so many times as much, and that many operators

/** The run that spares most, and its sequence: as it is, or branch by branch, as places in it. */
export function folded(units: Unit[]): { run: Repetition | null; order: number[] } {
  const order = units.map((_, i) => i);
  const run = bestRun(units);
  if (run !== null && run.gain > units.length / 2) return { run, order };
  const branches = byBranches(units);
  if (branches.every((place, i) => place === i)) return { run, order };
  const moved = new Map(branches.map((place, i) => [place, i]));
  const other = bestRun(branches.map((place) => ({ ...units[place]!, sources: units[place]!.sources.map((source) => moved.get(source) ?? -1) })));
  const isBetter = other !== null && other.gain > Math.max(MUCH, BETTER * (run?.gain ?? 0));
  return isBetter ? { run: other, order: branches } : { run, order };
}

export function bestRepetition(units: Unit[]): Repetition | null {
  const run = bestRun(units);
  return run && { start: run.start, period: run.period, count: run.count };
}

function bestRun(units: Unit[]): Run | null {
  for (const run of stretches(units)) {
    for (const variant of variants(run, units)) {
      const turned = isWorth(variant, units) ? turnedRun(units, variant) : null;
      if (turned !== null) return turned;
    }
  }
  return null;
}

function isWorth(run: Run, units: Unit[]): boolean {
  const hasGroups = units.slice(run.start, run.start + run.period).some((unit) => unit.weight > 1);
  return run.gain > WORTH && run.count > (hasGroups ? SCOPES : run.period === 1 ? ALONE : 1);
}

/** Runs by tokens alone, the ones that spare most first. */
function stretches(units: Unit[]): Run[] {
  const known = new Map<string, number>();
  const codes = Int32Array.from(units, ({ token }) => known.get(token) ?? (known.set(token, known.size), known.size - 1));
  const found: Run[] = [];
  for (const period of periods(codes)) {
    for (let i = 0, length = 0; i + period <= codes.length; i++) {
      if (i + period < codes.length && codes[i] === codes[i + period]) {
        length++;
        continue;
      }
      const count = Math.floor(length / period) + 1;
      if (count > 1) found.push(measured({ start: i - length, period, count, end: i + period, gain: 0 }, units));
      length = 0;
    }
  }
  return found.sort((a, b) => b.gain - a.gain || a.period - b.period || a.start - b.start).slice(0, TRIED);
}

function measured(run: Run, units: Unit[]): Run {
  let gain = 0;
  for (let i = run.start + run.period; i < run.start + run.period * run.count; i++) gain += units[i]!.weight;
  return { ...run, gain };
}

/** The run, and without its first or last copy. */
function variants(run: Run, units: Unit[]): Run[] {
  if (run.count < 3) return [run];
  const shorter = [{ ...run, start: run.start + run.period, count: run.count - 1 }, { ...run, count: run.count - 1 }];
  return [run, ...shorter.map((each) => measured(each, units))];
}

/** The run moved to where the fewest values go from one copy to the next; null where copies read one another differently. */
function turnedRun(units: Unit[], run: Run): Run | null {
  const room = Math.min(run.end - run.start - run.period * run.count, run.period - 1, TURNS);
  let best: Run | null = null;
  let least = Infinity;
  for (let turn = 0; turn <= room; turn++) {
    const moved = { ...run, start: run.start + turn };
    const crossing = isRegular(units, moved) ? crossings(units, moved) : Infinity;
    if (crossing < least) [best, least] = [moved, crossing];
  }
  return best;
}

/** Where an operand comes from: how many copies before, and which place of a copy; null for outside of the run. */
function origin(units: Unit[], run: Run, copy: number, place: number, operand: number): [back: number, place: number] | null {
  const at = units[run.start + copy * run.period + place]!.sources[operand]! - run.start;
  return at < 0 || at >= run.period * run.count ? null : [copy - Math.floor(at / run.period), at % run.period];
}

function isRegular(units: Unit[], run: Run): boolean {
  for (let place = 0; place < run.period; place++) {
    const { sources } = units[run.start + (run.count - 1) * run.period + place]!;
    for (let operand = 0; operand < sources.length; operand++) {
      const last = origin(units, run, run.count - 1, place, operand);
      for (let copy = 0; copy < run.count - 1; copy++) {
        if (units[run.start + copy * run.period + place]!.sources.length !== sources.length) return false;
        const now = origin(units, run, copy, place, operand);
        const expected = last !== null && last[0] > copy ? null : last; // the first copies read what is before the run
        if (now === null ? expected !== null : expected === null || now[0] !== expected[0] || now[1] !== expected[1]) return false;
      }
    }
  }
  return true;
}

function crossings(units: Unit[], run: Run): number {
  const found = new Set<string>();
  for (let place = 0; place < run.period; place++) {
    units[run.start + (run.count - 1) * run.period + place]!.sources.forEach((_, operand) => {
      const from = origin(units, run, run.count - 1, place, operand);
      if (from !== null && from[0] > 0) found.add(String(from));
    });
  }
  return found.size;
}

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
  return often.slice(0, PERIODS).map(([period]) => period).sort((a, b) => a - b);
}

/** An order in which each comes after what it reads, and otherwise right after the last one that it reads of. */
export function byBranches(units: Unit[]): number[] {
  const readers: number[][] = units.map(() => []);
  const waiting = units.map(({ sources }, i) => {
    const distinct = new Set(sources.filter((source) => source >= 0 && source < i)); // what is read around a cycle is not waited for
    for (const source of distinct) readers[source]!.push(i);
    return distinct.size;
  });
  const order: number[] = [];
  const ready = waiting.flatMap((count, i) => (count ? [] : [i])).reverse();
  while (ready.length) {
    const next = ready.pop()!;
    order.push(next);
    for (const reader of [...readers[next]!].reverse()) if (--waiting[reader]! === 0) ready.push(reader);
  }
  return order;
}
