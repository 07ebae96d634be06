// The present picture as a file of its own: everything in sight, with the style that it has on the page.

import { type Scene } from "./scene";

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "stroke-opacity", "font-family", "font-size", "font-weight", "text-anchor", "display", "paint-order", "stroke-linejoin"];

/** The drawing as SVG. Style sheets are written out into the elements, so that any program shows it as the page does. */
export function exported(canvas: SVGSVGElement, scene: Scene, background: string): string {
  const copy = canvas.cloneNode(true) as SVGSVGElement;
  const [old, now] = [canvas.querySelectorAll<SVGElement>("*"), copy.querySelectorAll<SVGElement>("*")];
  old.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of KEPT) {
      const value = style.getPropertyValue(name);
      if (value && value !== "none" || name === "fill") now[i]!.setAttribute(name, value);
    }
    for (const name of ["class", "role", "aria-label", "data-key", "data-value", "tabindex"]) if (name !== "class" || element.tagName !== "marker") now[i]!.removeAttribute(name);
  });
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

export function saved(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
