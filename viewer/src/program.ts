// The text pane: the program, line by line, with what was removed and added; a line is an operator, and selects it.

import { html } from "./elements";
import type { Line } from "./lines";

const ROW = 18;
const ALL = 2500; // lines up to which all are in the document
const CONTEXT = 2;
const [COLORED, SHOWN] = [2000, 10000]; // letters of a line: the inputs of a large program are thousands of names in one
const TOKEN = /(->|[\w@.$/-]+(?:#\d+)?(?=: )|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(?:float|int|uint|bool)\d*\[[^\]]*\]|^[\w.]+(?=\())/g;

export class ProgramPane {
  readonly pane = html("section", { class: "pane program", "aria-label": "program text" });
  private readonly code = html("div", { class: "code", tabindex: 0, role: "group", "aria-label": "operators, one a line" });
  private readonly body = html("div", { class: "lines" });
  private readonly only = html("input", { type: "checkbox", id: "only-diff" });
  private readonly heading = html("small");
  private lines: Line[] = [];
  private all: Line[] = [];
  private selected: Set<number> = new Set();

  constructor(onSelect: (op: number) => void, onHover: (op: number | null) => void) {
    const label = html("label", { class: "filter" }, this.only, " only what changed");
    this.only.addEventListener("change", () => this.arrange());
    this.pane.append(html("h2", {}, "Program ", this.heading), label, this.code);
    this.code.append(this.body);
    const opAt = (event: Event): number | null => {
      const at = (event.target as Element).closest("[data-op]")?.getAttribute("data-op");
      return at ? Number(at) : null;
    };
    this.code.addEventListener("click", (event) => {
      const op = opAt(event);
      if (op !== null && !String(getSelection())) onSelect(op);
    });
    this.code.addEventListener("pointerover", (event) => onHover(opAt(event)));
    this.code.addEventListener("pointerleave", () => onHover(null));
    this.code.addEventListener("scroll", () => this.lines.length > ALL && this.fill());
    new ResizeObserver(() => this.lines.length > ALL && this.fill()).observe(this.code);
  }

  show(lines: Line[]): void {
    this.all = lines;
    const [removed, added] = [lines.filter((line) => line.mark && line.old).length, lines.filter((line) => line.mark && !line.old).length];
    this.heading.textContent = removed + added ? `+${added} −${removed}` : "";
    this.arrange();
  }

  private arrange(): void {
    this.lines = this.only.checked ? around(this.all) : this.all;
    this.fill();
  }

  private fill(): void {
    const isWhole = this.lines.length <= ALL;
    const first = isWhole ? 0 : Math.max(0, Math.floor(this.code.scrollTop / ROW) - 40);
    const last = isWhole ? this.lines.length : Math.min(this.lines.length, first + Math.ceil(this.code.clientHeight / ROW) + 80);
    this.body.style.height = `${this.lines.length * ROW}px`;
    this.body.style.paddingTop = `${first * ROW}px`;
    this.body.innerHTML = this.lines.slice(first, last).map((line) => this.row(line)).join("");
  }

  private row(line: Line): string {
    const sign = line.mark === null ? " " : line.old ? "−" : "+";
    const kind = line.mark === null ? "" : line.old ? " old" : " new";
    const isOn = line.op !== null && this.selected.has(line.op);
    const on = isOn ? " on" : "";
    const op = line.op === null ? "" : ` data-op="${line.op}"${isOn ? ' aria-current="true"' : ""}`;
    return `<div class="line${kind}${on}"${op}><i>${sign}</i>${"  ".repeat(line.indent)}${colored(line.text)}</div>`;
  }

  /** Highlight the lines of operators; bring the first one into sight. */
  select(ops: Set<number>, isScrolling: boolean): void {
    this.selected = ops;
    if (this.lines.length > ALL) this.fill();
    else for (const line of this.body.children) mark(line, ops.has(Number(line.getAttribute("data-op") ?? -1)));
    const at = this.lines.findIndex((line) => line.op !== null && ops.has(line.op));
    if (!isScrolling || at < 0) return;
    const top = at * ROW;
    if (top < this.code.scrollTop || top + ROW > this.code.scrollTop + this.code.clientHeight) this.code.scrollTop = Math.max(0, top - this.code.clientHeight / 3);
  }

  /** Mark the line of an operator that the mouse is over. */
  hover(op: number | null): void {
    for (const line of this.body.querySelectorAll(".hot")) line.classList.remove("hot");
    if (op !== null) for (const line of this.body.querySelectorAll(`[data-op="${op}"]`)) line.classList.add("hot");
  }

  scrollTo(op: number): void {
    const at = this.lines.findIndex((line) => line.op === op);
    if (at >= 0) this.code.scrollTop = Math.max(0, at * ROW - this.code.clientHeight / 3);
  }

  /** Bring the first change into sight. */
  toFirstChange(): void {
    const at = this.lines.findIndex((line) => line.mark !== null);
    if (at >= 0) this.code.scrollTop = Math.max(0, (at - 3) * ROW);
  }
}

function mark(line: Element, isOn: boolean): void {
  line.classList.toggle("on", isOn);
  if (isOn) line.setAttribute("aria-current", "true");
  else line.removeAttribute("aria-current");
}

function around(lines: Line[]): Line[] {
  const isNear = new Uint8Array(lines.length);
  lines.forEach((line, i) => line.mark && isNear.fill(1, Math.max(0, i - CONTEXT), i + CONTEXT + 1));
  const shown: Line[] = [];
  lines.forEach((line, i) => {
    if (isNear[i]) shown.push(line);
    else if (i === 0 || isNear[i - 1]) shown.push({ text: "…", indent: line.indent, op: null, mark: null, old: false });
  });
  return shown;
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escaped = (text: string): string => text.replace(/[&<>"]/g, (letter) => ESCAPES[letter]!);

function colored(text: string): string {
  let [result, last] = ["", 0];
  for (const match of text.slice(0, COLORED).matchAll(TOKEN)) {
    const token = match[0];
    const kind = token === "->" ? "a" : token.endsWith("]") ? "t" : match.index === 0 ? "o" : /^["']/.test(token) ? "s" : "v";
    result += `${escaped(text.slice(last, match.index))}<span class="${kind}">${escaped(token)}</span>`;
    last = match.index + token.length;
  }
  const rest = text.length > SHOWN ? ` … ${text.length - SHOWN} letters more` : "";
  return result + escaped(text.slice(last, SHOWN) + rest);
}
