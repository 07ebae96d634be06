// The present picture as a file of its own: the whole drawing, with the style that it has on the page.

import { type Scene } from "./scene";

// What is written out, with what holds where nothing is written.
const DRAWN = { fill: "", stroke: "none", "stroke-width": "1px", "stroke-dasharray": "none", "fill-opacity": "1", "stroke-opacity": "1", "stroke-linejoin": "miter", "paint-order": "normal", "marker-end": "none" };
const WRITTEN = { "font-family": "", "font-size": "", "font-weight": "400", "text-anchor": "start" };
const ANY = { opacity: "1", display: "inline" };
const OWN = ["class", "style", "role", "aria-label", "aria-expanded", "data-key", "data-value", "tabindex"];

/** The drawing as SVG. Style sheets are written out into the elements, so that any program shows it as the page does. */
export function exported(canvas: SVGSVGElement, scene: Scene, background: string): string {
  const copy = canvas.cloneNode(true) as SVGSVGElement;
  const [old, now] = [canvas.querySelectorAll<SVGElement>("*"), copy.querySelectorAll<SVGElement>("*")];
  const known = new Map<string, [name: string, value: string][]>(); // elements that look the same have their style looked up once
  old.forEach((element, i) => {
    const looks = lookOf(element);
    if (!known.has(looks)) known.set(looks, styleOf(element));
    for (const [name, value] of known.get(looks)!) now[i]!.setAttribute(name, value);
  });
  for (const element of now) {
    if (element.getAttribute("display") === "none") element.remove();
    for (const name of OWN) element.removeAttribute(name);
  }
  const world = copy.querySelector("g")!;
  world.setAttribute("transform", "translate(16 16)");
  const [w, h] = [Math.ceil(scene.width + 32), Math.ceil(scene.height + 32)];
  for (const name of [...copy.getAttributeNames()]) copy.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${w} ${h}`);
  copy.setAttribute("width", String(w));
  copy.setAttribute("height", String(h));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", String(w));
  ground.setAttribute("height", String(h));
  ground.setAttribute("fill", background);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

/** All that style sheets tell elements apart by. */
function lookOf(element: SVGElement): string {
  const around = [element, element.parentElement, element.closest(".shape")].map((each) => each?.getAttribute("class"));
  return [element.tagName, ...around, ...["style", "font-size", "text-anchor", "display"].map((name) => element.getAttribute(name))].join("|");
}

function styleOf(element: SVGElement): [name: string, value: string][] {
  const style = getComputedStyle(element);
  const isDrawn = element.tagName !== "g" && element.tagName !== "defs" && element.tagName !== "marker" && element.tagName !== "title";
  const wanted = { ...ANY, ...(isDrawn ? DRAWN : {}), ...(element.tagName === "text" ? WRITTEN : {}) };
  return Object.entries(wanted).flatMap(([name, usual]): [string, string][] => {
    const value = style.getPropertyValue(name);
    return value && value !== usual ? [[name, value.replace(/^url\("(.*)"\)$/, "url($1)")]] : [];
  });
}

export function saved(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
