// What does not repeat, in parts: a long sequence is cut where the fewest values go across.

import type { Unit } from "./repeats";

const [LEAST, MOST] = [25, 80]; // operators of a part, about
const SLACK = 0.25; // of a part, by which a cut may be moved

/** Where to cut a sequence: the places at which all parts but the first begin. */
export function cuts(units: Unit[]): number[] {
  const size = Math.min(Math.max(Math.round(Math.sqrt(units.length)), LEAST), MOST);
  const crossing = crossings(units);
  const found: number[] = [];
  for (let at = size; at < units.length - size / 2; at = found.at(-1)! + size) {
    let best = at; // of several as good the nearest
    for (let off = 1; off <= SLACK * size; off++) for (const place of [at - off, at + off]) if (place < units.length && crossing[place]! < crossing[best]!) best = place;
    found.push(best);
  }
  return found;
}

/** By place, how many units before it are read by one from there on. */
function crossings(units: Unit[]): Int32Array {
  const last = units.map((_, i) => i);
  units.forEach(({ sources }, i) => {
    for (const source of sources) if (source >= 0 && source < i) last[source] = Math.max(last[source]!, i);
  });
  const counts = new Int32Array(units.length + 2);
  last.forEach((reader, i) => {
    counts[i + 1]!++;
    counts[reader + 1]!--;
  });
  for (let i = 1; i < counts.length; i++) counts[i]! += counts[i - 1]!;
  return counts;
}
