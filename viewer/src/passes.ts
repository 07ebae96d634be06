// The list of passes, and of the rewrites of the pass that is shown.

import type { Data, Frame } from "./data";
import { html } from "./elements";
import type { History } from "./state";

export interface Listener {
  onPass(frame: number): void;
  onRewrite(rewrite: number): void;
}

const MORE = 200; // rewrites that are listed at once; more come when they are scrolled to

export class PassList {
  readonly pane = html("section", { class: "pane passes", "aria-label": "passes and rewrites" });
  private readonly list = html("ul", { role: "listbox", "aria-label": "passes", tabindex: 0 });
  private readonly steps = html("ol", { class: "rewrites", "aria-label": "rewrites" });
  private readonly filter = html("input", { type: "checkbox", id: "only-changed" });
  private frame = -1;
  private listed = 0;

  constructor(
    private readonly history: History,
    private readonly listener: Listener,
  ) {
    const total = history.data.frames.reduce((sum, frame) => sum + frame.ms, 0);
    const head = html("h2", {}, "Passes ", html("small", {}, `${milliseconds(total)} in all`));
    const label = html("label", { class: "filter" }, this.filter, " only what changed the graph");
    this.filter.addEventListener("change", () => this.pane.classList.toggle("only-changed", this.filter.checked));
    this.list.append(...history.data.frames.map((frame, i) => this.option(frame, i)));
    this.steps.addEventListener("scroll", () => {
      if (this.steps.scrollTop + this.steps.clientHeight > this.steps.scrollHeight - 200) this.extend(this.listed + MORE);
    });
    this.pane.append(head, label, this.list, this.steps);
  }

  private option(frame: Frame, i: number): HTMLElement {
    const isChanged = hasChanged(frame) || i === 0;
    const counts = i === 0 ? this.given() : [arrow("operators", frame.ops), arrow("values", frame.values)].join(", ");
    const parts = i === 0 ? ["as it was given", counts] : [milliseconds(frame.ms), counts, isChanged ? "" : "changed nothing"];
    const note = frame.error ? "failed" : parts.filter(Boolean).join(" · ");
    const rewrites = frame.count > 0 && isChanged ? html("span", { class: "count", title: `${frame.count} rewrites` }, String(frame.count)) : null;
    const classes = ["pass", isChanged ? "" : "unchanged", frame.error ? "failed" : ""].filter(Boolean).join(" ");
    const option = html("li", { role: "option", id: `pass-${i}`, class: classes, "aria-selected": "false", title: frame.doc });
    option.append(html("b", {}, frame.text), html("span", { class: "note" }, note));
    if (rewrites) option.append(rewrites);
    option.addEventListener("click", () => this.listener.onPass(i));
    return option;
  }

  /** The counts of the graph before any pass, without those of nested graphs. */
  private given(): string {
    const state = this.history.after(0);
    const values = [...state.values.values()].filter((value) => value.graph === state.root);
    return `${state.order(state.root).length} operators, ${values.length} values`;
  }

  /** The pass before or after one in the list, as it is filtered; -1 where there is none. */
  next(from: number, by: number): number {
    const { frames } = this.history.data;
    for (let at = from + by; at >= 0 && at < frames.length; at += by) if (!this.filter.checked || at === 0 || hasChanged(frames[at]!)) return at;
    return -1;
  }

  /** Show which pass, and which rewrite (-1: none), is looked at. */
  select(frame: number, rewrite: number): void {
    [...this.list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === frame)));
    this.list.setAttribute("aria-activedescendant", `pass-${frame}`);
    this.list.children[frame]?.scrollIntoView({ block: "nearest" });
    if (this.frame !== frame) this.fill(frame);
    this.extend(rewrite + 1);
    this.steps.querySelector("[aria-current=true]")?.setAttribute("aria-current", "false");
    const button = this.steps.children[rewrite]?.firstElementChild;
    button?.setAttribute("aria-current", "true");
    button?.scrollIntoView({ block: "nearest" });
  }

  private fill(frame: number): void {
    this.frame = frame;
    this.listed = 0;
    const { rewrites, count } = this.history.data.frames[frame]!;
    this.steps.replaceChildren();
    if (count > rewrites.length) this.steps.append(html("li", { class: "note" }, `and ${count - rewrites.length} more, which the pass as a whole shows`));
    this.steps.hidden = rewrites.length === 0;
    this.extend(MORE);
  }

  /** List the rewrites up to one. */
  private extend(upTo: number): void {
    const { rewrites } = this.history.data.frames[this.frame]!;
    const more = rewrites.slice(this.listed, upTo).map(([rule, seen, line], i) => this.step(this.history.text(rule), seen, line, this.listed + i));
    this.listed += more.length;
    const rest = this.steps.querySelector("li.note");
    if (rest === null) this.steps.append(...more);
    else rest.before(...more);
  }

  private step(rule: string, seen: number[], line: number, i: number): HTMLElement {
    const before = this.history.within(this.frame, 0);
    const names = seen.map((op) => before.ops.get(op)?.type).filter(Boolean).slice(0, 3).join(", ");
    const button = html("button", { type: "button", title: placeOf(this.history.data, line) }, html("b", {}, `${i + 1} `), rule, names && !rule.includes("⇒") ? html("span", { class: "note" }, ` ${names}`) : null);
    button.addEventListener("click", () => this.listener.onRewrite(i));
    return html("li", {}, button);
  }
}

export const hasChanged = (frame: Frame): boolean => Object.keys(frame.delta).length > 0 || frame.rewrites.some((rewrite) => Object.keys(rewrite[3]).length > 0);

export function placeOf(data: Data, line: number): string {
  const place = data.tables.lines[line];
  return place === undefined ? "" : `${place[0]}:${place[1]}`;
}

export const milliseconds = (ms: number): string => (ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(2)} ms`);

const arrow = (what: string, [before, after]: [number, number]): string => (before === after ? `${after} ${what}` : `${before} → ${after} ${what}`);
