// What graphad writes into the page (graphad/viewing): records of numbers, told apart by their place. -1 stands for nothing.

export const NOTHING = -1;
export const [FORWARD, BACKWARD, OPTIMIZE] = [0, 1, 2];
export const [GIVEN, PERSISTABLE, STOPPED, TARGET] = [1, 2, 4, 8];
export const ROLES = ["forward", "backward", "optimize"];

type Slots = (number | number[])[];
export type OpRecord = [
  type: number, role: number, attributes: number, inputs: Slots, outputs: Slots, graphs: number[], forward: number, source: number,
  madeBy: number, origin: number, graph: number, scope: number, operands?: number[], outcomes?: number[], carried?: [number, number],
];
export type ValueRecord = [name: number, version: number, type: number, marks: number, gradientOf: number, graph: number, residual?: number];
export type GraphRecord = [owner: number, name: number, inputs: number[], results: number[], residuals: number[]];

export interface Delta {
  o?: Record<string, OpRecord>;
  v?: Record<string, ValueRecord>;
  g?: Record<string, GraphRecord>;
  x?: number[];
  a?: number[];
  r?: Record<string, number[]>;
}

export type RewriteRecord = [rule: number, seen: number[], line: number, delta: Delta];
export type Ancestor = [text: number, line: number, madeBy: number, origin: number];
export type Summary = [
  min: number | null, max: number | null, mean: number | null, bins: number[], nan: number, inf: number, zero: number, size: number,
  times?: number, ranges?: ([low: number, high: number] | null)[],
];

export interface Frame {
  name: string;
  text: string;
  doc: string;
  ms: number;
  line: number;
  ops: [number, number];
  values: [number, number];
  count: number;
  error: string;
  delta: Delta;
  costs: Record<string, [flops: number, read: number, written: number]>;
  totals: number[];
  rewrites: RewriteRecord[];
}

export interface Data {
  title: string;
  watched: boolean;
  note: string;
  start: string; // the address where the page has none: what it was written to show
  frames: Frame[];
  values: Record<string, Summary>;
  seconds: Record<string, number>;
  overlays: { title: string; numbers: Record<string, number | null> }[];
  tables: {
    texts: string[];
    attributes: number[][];
    lines: [file: string, line: number][];
    files: Record<string, Record<string, string>>;
    origins: [rule: number, ancestors: Ancestor[]][];
  };
}
