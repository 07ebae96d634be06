// Numbers by operator as colors of boxes, with a bar that says what they mean; the scale is that of the drawings (graphad/drawing/theme.py).

import type { Data } from "./data";
import { html } from "./elements";

export interface Overlay {
  name: string; // as in the address
  title: string;
  numbers: ReadonlyMap<number, number>; // by operator or value
  unit: string;
}

const DECADES = 3; // from a thousandfold on, colors follow the logarithm
// From dark blue to yellow in CIELAB: lightness rises evenly, so that it can be read by the color-blind, and in gray.
const POINTS: readonly [number, number, number][] = [[22, 20, -48], [42, 0, -28], [60, -8, 2], [76, -6, 42], [92, -6, 72]];
const COLORS = Array.from({ length: 33 }, (_, i) => colorAt(i / 32));

/** The overlays that a page has: what was estimated, what was measured, what the user gave. */
export function overlaysOf(data: Data, costs: ReadonlyMap<number, [number, number, number]>): Overlay[] {
  const found: Overlay[] = [
    { name: "operations", title: "operations", numbers: new Map([...costs].map(([op, [flops]]) => [op, flops])), unit: "" },
    { name: "bytes", title: "bytes moved", numbers: new Map([...costs].map(([op, [, read, written]]) => [op, read + written])), unit: "B" },
    { name: "time", title: "time, measured", numbers: tableOf(data.seconds), unit: "s" },
    ...data.overlays.map(({ title, numbers }, i) => ({ name: `own${i || ""}`, title, numbers: tableOf(numbers), unit: "" })),
  ];
  return found.filter((overlay) => overlay.numbers.size > 0);
}

/** Numbers by operator; null is written for what is not finite. */
const tableOf = (numbers: Record<string, number | null>): Map<number, number> => new Map(Object.entries(numbers).map(([id, number]) => [Number(id), number ?? Infinity]));

/** The colors of the boxes that are seen: the scale goes from the least to the greatest of their numbers. */
export class Scale {
  readonly low: number;
  readonly high: number;
  readonly isLogarithmic: boolean;
  private readonly least: number;

  constructor(readonly overlay: Overlay, numbers: number[]) {
    const finite = numbers.filter(Number.isFinite);
    this.low = finite.reduce((a, b) => Math.min(a, b), Infinity);
    this.high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    this.least = finite.reduce((a, b) => (b > 0 ? Math.min(a, b) : a), Infinity);
    this.isLogarithmic = this.low >= 0 && this.least < Infinity && Math.log10(this.high / this.least) > DECADES;
  }

  share(number: number): number {
    if (!Number.isFinite(number)) return 1;
    if (this.isLogarithmic) return Math.log(Math.max(number, this.least) / this.least) / Math.log(this.high / this.least);
    return this.high > this.low ? (number - this.low) / (this.high - this.low) : 0.5;
  }

  color(number: number): string {
    return COLORS[Math.round(this.share(number) * 32)]!;
  }

  isDark(number: number): boolean {
    return this.share(number) < 0.45;
  }

  /** The bar, with the numbers at its ends. */
  bar(): HTMLElement {
    const { title, unit } = this.overlay;
    const [low, high] = [quantity(this.isLogarithmic ? this.least : this.low, unit), quantity(this.high, unit)];
    const strip = html("i", {});
    strip.style.background = `linear-gradient(to right, ${COLORS.join(",")})`;
    const how = this.isLogarithmic ? ", logarithmic" : "";
    return html("div", { class: "scale", role: "img", "aria-label": `colors: ${title} from ${low} to ${high}${how}` }, html("span", {}, `${title}${how}`), html("span", {}, low), strip, html("span", {}, high));
  }
}

/** A number in three digits, with the prefix of its unit. */
export function quantity(number: number, unit: string): string {
  if (number === 0 || !Number.isFinite(number)) return `${number}${unit && ` ${unit}`}`;
  const prefixes: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  const [size, prefix] = (unit === "s" ? prefixes.slice(4) : unit ? prefixes : prefixes.slice(0, 5)).find(([each]) => Math.abs(number) >= each) ?? [1, ""];
  const text = String(Number((number / size).toPrecision(3)));
  return `${text}${prefix || unit ? ` ${prefix}${unit}` : ""}`;
}

function colorAt(share: number): string {
  const place = share * (POINTS.length - 1);
  const i = Math.min(Math.floor(place), POINTS.length - 2);
  const [lightness, a, b] = [0, 1, 2].map((k) => POINTS[i]![k]! + (POINTS[i + 1]![k]! - POINTS[i]![k]!) * (place - i)) as [number, number, number];
  const linear = (t: number): number => (t > 6 / 29 ? t ** 3 : 3 * (6 / 29) ** 2 * (t - 4 / 29));
  const middle = (lightness + 16) / 116;
  const [x, y, z] = [0.9505 * linear(middle + a / 500), linear(middle), 1.089 * linear(middle - b / 200)];
  const channels = [3.2406 * x - 1.5372 * y - 0.4986 * z, -0.9689 * x + 1.8758 * y + 0.0415 * z, 0.0557 * x - 0.204 * y + 1.057 * z];
  return `#${channels.map((each) => Math.round(255 * gamma(each)).toString(16).padStart(2, "0")).join("")}`;
}

function gamma(channel: number): number {
  const bounded = Math.min(Math.max(channel, 0), 1);
  return bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
}
