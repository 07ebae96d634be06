// The state of the page in the address, so that it can be kept, sent and reloaded: #pass=2&step=5&sel=o14&view=10,20,0.8&color=time&groups=o3,-x7

import type { Viewport } from "./canvas";

export interface Address {
  pass: number;
  step: number; // -1: the pass as a whole
  selection: string;
  view: Viewport | null;
  groups: Map<string, boolean>;
  color: string; // what boxes are colored by; empty: by the part of the program
}

export function written(address: Address): string {
  const parts = [`pass=${address.pass}`];
  if (address.step >= 0) parts.push(`step=${address.step + 1}`);
  if (address.selection) parts.push(`sel=${encodeURIComponent(address.selection)}`);
  if (address.view !== null) parts.push(`view=${address.view.x.toFixed(0)},${address.view.y.toFixed(0)}`, `zoom=${address.view.scale.toFixed(3)}`);
  if (address.color) parts.push(`color=${encodeURIComponent(address.color)}`);
  if (address.groups.size) parts.push(`groups=${[...address.groups].map(([key, isOpen]) => `${isOpen ? "" : "-"}${encodeURIComponent(key)}`).join(",")}`);
  return `#${parts.join("&")}`;
}

export function read(hash: string): Address {
  const parts = new Map(hash.replace(/^#/, "").split("&").map((part): [string, string] => [part.split("=")[0]!, part.slice(part.indexOf("=") + 1)]));
  const number = (text: string | undefined, fallback: number): number => (text !== undefined && Number.isFinite(Number(text)) ? Number(text) : fallback);
  const [x, y] = (parts.get("view") ?? "").split(",");
  const scale = number(parts.get("zoom"), 0);
  const groups = (parts.get("groups") ?? "").split(",").filter(Boolean);
  return {
    pass: Math.floor(number(parts.get("pass"), 0)),
    step: Math.floor(number(parts.get("step"), 0)) - 1,
    selection: decoded(parts.get("sel") ?? ""),
    view: scale > 0 ? { x: number(x || undefined, NaN), y: number(y || undefined, NaN), scale } : null,
    groups: new Map(groups.map((key): [string, boolean] => (key.startsWith("-") ? [decoded(key.slice(1)), false] : [decoded(key), true]))),
    color: decoded(parts.get("color") ?? ""),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
