// Ways from side to side of a drawing, around the boxes and titles that are between: as one curve where it is free, else along a corridor.
//
//     a ─╮  ┌───┐  ╭─▶ b
//        │  │ c │  │
//        ╰──└───┘──╯        the corridor is the height, next to those of the ends, at which nothing is in the way

import type { Point } from "./layout";
import { push } from "./state";

export interface Area {
  left: number;
  top: number;
  right: number;
  bottom: number;
  isFrame?: boolean; // in the way only of lines that have no end in it, as far as there is another way
}

const ROW = 48; // height of the rows that areas are looked up by
const CLEAR = 3; // between a line and what it passes
const APART = 4; // between lines of one corridor
const TURNS = [22, 12, 6]; // what a line takes to turn from a box into a corridor: less than is between boxes
const REACH = 160; // how far from both ends a corridor is looked for
const PARTS = 16; // of a curve that are looked at

export class Corridors {
  private readonly rows = new Map<number, Area[]>();
  private ends: [Point, Point] | null = null; // of the line that is being led; null: through all frames
  private readonly lines = new Map<number, [left: number, right: number][]>(); // by height in steps, what was led through

  constructor(areas: Area[]) {
    for (const area of areas) for (const row of rowsOf(area.top, area.bottom)) push(this.rows, row, area);
  }

  /** The points of a line whose parts are curves that leave and arrive sideways. */
  way(from: Point, to: Point): Point[] {
    for (const ends of [[from, to], null] as ([Point, Point] | null)[]) {
      this.ends = ends;
      const points = this.around(from, to);
      if (points !== null) return points;
    }
    return [from, to];
  }

  private around(from: Point, to: Point): Point[] | null {
    if (this.isCurveFree(from, to)) return [from, to];
    for (const turn of TURNS) {
      if (Math.abs(to.x - from.x) < 3 * turn) continue;
      const aside = Math.sign(to.x - from.x) * turn;
      const y = this.corridor(from, to, from.x + aside, to.x - aside);
      if (y !== null) return [from, { x: from.x + aside, y }, { x: to.x - aside, y }, to];
    }
    return null;
  }

  /** Whether nothing is in the way of the curve from one side to the other. */
  private isCurveFree(from: Point, to: Point): boolean {
    for (let i = 1; i < PARTS; i++) {
      const [t, u] = [(i - 0.5) / PARTS, (i + 0.5) / PARTS];
      const [a, b] = [along(from, to, t), along(from, to, u)];
      if (!this.isFree({ left: Math.min(a.x, b.x), right: Math.max(a.x, b.x), top: Math.min(a.y, b.y), bottom: Math.max(a.y, b.y) })) return false;
    }
    return true;
  }

  /** The free height that is the shortest way from one end to the other; null if there is none near by. */
  private corridor(from: Point, to: Point, start: number, end: number): number | null {
    const [low, high] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
    const [left, right] = [Math.min(start, end), Math.max(start, end)];
    const steps = Math.ceil((high - low + 2 * REACH) / APART);
    const first = Math.round((from.y + to.y) / 2 / APART);
    for (let i = 0; i <= steps; i++) {
      const step = first + (i % 2 ? (i + 1) / 2 : -i / 2);
      const y = step * APART;
      if (y < low - REACH || y > high + REACH) continue;
      const taken = this.lines.get(step) ?? [];
      if (taken.some(([a, b]) => a < right && b > left) || !this.isFree({ left, right, top: y, bottom: y })) continue;
      if (!this.isCurveFree(from, { x: start, y }) || !this.isCurveFree({ x: end, y }, to)) continue;
      this.lines.set(step, [...taken, [left, right]]);
      return y;
    }
    return null;
  }

  private isFree({ left, top, right, bottom }: Area): boolean {
    const { ends } = this;
    const isOpen = (area: Area): boolean => area.isFrame === true && (ends === null || ends.some((end) => isWithin(end, area)));
    const isMet = (area: Area): boolean => area.left < right && area.right > left && area.top - CLEAR < bottom && area.bottom + CLEAR > top && !isOpen(area);
    return rowsOf(top - CLEAR, bottom + CLEAR).every((row) => !this.rows.get(row)?.some(isMet));
  }
}

const isWithin = ({ x, y }: Point, { left, top, right, bottom }: Area): boolean => x >= left && x <= right && y >= top && y <= bottom;

function rowsOf(top: number, bottom: number): number[] {
  const first = Math.floor(top / ROW);
  return Array.from({ length: Math.floor(bottom / ROW) - first + 1 }, (_, i) => first + i);
}

/** A point of the curve (Bezier, cubic) that leaves and arrives sideways. */
function along(from: Point, to: Point, t: number): Point {
  const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
  return { x: (a + b / 2 + c / 2) * from.x + (b / 2 + c / 2 + d) * to.x, y: (a + b) * from.y + (c + d) * to.y };
}
