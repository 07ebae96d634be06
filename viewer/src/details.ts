// The details pane: all that is known of what is selected; of nothing selected, what the pass did.

import type { Changes, Mark } from "./changes";
import { type Frame, GIVEN, NOTHING, PERSISTABLE, ROLES, STOPPED, type Summary, TARGET } from "./data";
import { html, svg } from "./elements";
import { milliseconds, placeOf } from "./passes";
import { quantity } from "./overlay";
import { type History, type Op, ofOrder, reads, shown, type Slot, type State, type Value, writes } from "./state";
import { type Group, mostUsual, type Tree } from "./tree";

export interface Context {
  history: History;
  tree: Tree;
  frame: number;
  rewrite: number;
  costs: Map<number, [number, number, number]>;
}

type Part = Node | string | null;

export class DetailsPane {
  readonly pane = html("section", { class: "pane details", "aria-label": "details", tabindex: 0 });
  private context!: Context;

  constructor(
    private readonly onOp: (op: number) => void,
    private readonly onValue: (value: number) => void,
    private readonly onToggle: (key: string) => void,
  ) {}

  private fill(...parts: Part[]): void {
    this.pane.replaceChildren(...parts.filter((part) => part !== null));
    this.pane.scrollTop = 0;
  }

  private get data(): History["data"] {
    return this.context.history.data;
  }

  // -- the pass -----------------------------------------------------------------------------------

  showPass(context: Context): void {
    this.context = context;
    const frame = this.data.frames[context.frame]!;
    const { counts } = context.tree.changes;
    const rewrite = frame.rewrites[context.rewrite];
    if (rewrite !== undefined) return this.showRewrite(frame, context, counts);
    const [flops, read, written, peak] = frame.totals;
    const { after } = context.tree;
    const operators = `${after.ops.size}${after.graphs.size > 1 ? " with those in nested graphs" : ""}`;
    this.fill(
      heading(frame.text, "pass"),
      frame.doc ? html("p", {}, frame.doc) : null,
      frame.error ? html("p", { class: "error" }, frame.error) : null,
      table([
        ["time", frame.ms ? milliseconds(frame.ms) : null],
        ["operators", operators],
        ["added, removed, changed", context.frame ? `${counts.added}, ${counts.removed}, ${counts.changed}` : null],
        ["rewrites", frame.count ? String(frame.count) : null],
      ]),
      flops === undefined ? null : this.section("Cost of the graph", table([["operations", short(flops)], ["bytes read", short(read!)], ["bytes written", short(written!)], ["most bytes at once", short(peak!)]])),
      this.code("Written at", frame.line),
      this.data.note ? html("p", { class: "note" }, this.data.note) : null,
    );
  }

  private showRewrite(frame: Frame, context: Context, counts: Changes["counts"]): void {
    const [rule, seen, line] = frame.rewrites[context.rewrite]!;
    const { before, after, changes } = context.tree;
    const ops = (mark: Mark, state: State): Part[] => [...changes.ops].filter(([, each]) => each === mark).slice(0, 12).map(([id]) => this.opLine(state, id, mark));
    this.fill(
      heading(this.context.history.text(rule), `rewrite ${context.rewrite + 1} of ${frame.count}, ${frame.text}`),
      seen.length ? this.section("It saw", ...seen.map((id) => this.opLine(before.ops.has(id) ? before : after, id))) : null,
      this.section("Before", ...ops("removed", before), ...ops("changed", before), counts.removed + counts.changed ? null : html("p", { class: "note" }, "nothing of it")),
      this.section("After", ...ops("added", after), ...ops("changed", after), counts.added + counts.changed ? null : html("p", { class: "note" }, "nothing is left of it")),
      this.code("The line that wrote it", line),
    );
  }

  private opLine(state: State, id: number, mark: Mark | null = null): Part {
    const op = state.ops.get(id);
    if (op === undefined) return null;
    const text = `${op.type}(${reads(op).map((value) => shown(state.values.get(value))).join(", ")}) → ${writes(op).map((value) => shown(state.values.get(value))).join(", ")}`;
    const note = mark === null ? null : html("span", { class: `badge ${mark}` }, ` ${mark}`);
    return html("p", { class: "line-of-op" }, this.link(text, () => this.onOp(id)), note);
  }

  // -- an operator --------------------------------------------------------------------------------

  showOp(context: Context, op: Op): void {
    this.context = context;
    const { tree, history } = context;
    const state = tree.stateOf(op);
    const mark = tree.changes.ops.get(op.id);
    const gradients = state.gradients(op.id);
    const attributes = history.attributes(op.attributes);
    const forward = state.ops.get(op.forward);
    const group = tree.groups.get(`o${op.id}`);
    this.fill(
      heading(op.type, [`operator of the ${ROLES[state.role(op)]}${ofOrder(state.derivative(op))}`, mark].filter(Boolean).join(", ")),
      group === undefined ? null : this.button(group.isOpen ? "Close its nested graph" : "Open its nested graph", () => this.onToggle(group.key)),
      mark === "changed" && tree.before.ops.has(op.id) ? this.section("Before", this.opLine(tree.before, op.id)) : null,
      this.section("Attributes", attributes.length ? table(attributes) : html("p", { class: "note" }, "none")),
      op.inputs.length ? this.section("Inputs", this.slots(state, op.inputs)) : null,
      op.outputs.length ? this.section("Outputs", this.slots(state, op.outputs)) : null,
      forward || gradients.length ? this.section("Partners", forward ? html("p", {}, "gradient of ", this.opLink(state, forward)) : null, ...gradients.map((id) => html("p", {}, "its gradient is ", this.opLink(state, state.ops.get(id)!)))) : null,
      this.cost(op),
      this.code("Source", op.source),
      this.provenance(op),
      ...writes(op).map((value) => this.statistics(state.values.get(value))),
    );
  }

  private slots(state: State, slots: Slot[]): HTMLElement {
    const rows = slots.flatMap(({ name, values }) =>
      values.map((id, i) => {
        const value = state.values.get(id);
        const link = this.link(shown(value), () => this.onValue(id));
        return html("tr", {}, html("th", {}, values.length > 1 ? `${name} ${i}` : name), html("td", {}, link, " ", html("span", { class: "type" }, value?.type ?? "?")));
      }),
    );
    return html("table", {}, html("tbody", {}, ...rows));
  }

  private cost(op: Op): Part {
    const cost = this.context.costs.get(op.id);
    const seconds = this.data.seconds[op.id];
    if (cost === undefined && seconds === undefined) return null;
    const [flops, read, written] = cost ?? [0, 0, 0];
    const total = this.data.frames[this.context.frame]!.totals[0] ?? 0;
    const share = total ? ` (${((100 * flops) / total).toFixed(1)} % of the graph)` : "";
    return this.section("Cost", table([["operations", `${short(flops)}${share}`], ["bytes read", short(read)], ["bytes written", short(written)], ["time", seconds === undefined ? null : this.time(seconds)]]));
  }

  /** Seconds, and how much that is of all that ran. */
  private time(seconds: number): string {
    const { after } = this.context.tree;
    let total = 0;
    for (const [id, each] of Object.entries(this.data.seconds)) if (after.ops.has(Number(id))) total += each;
    return `${quantity(seconds, "s")}${total ? ` (${((100 * seconds) / total).toFixed(1)} % of the run)` : ""}`;
  }

  /** Where an operator comes from: the pass and rule that made it, from which operators, and so on to the lines of the user. */
  private provenance(op: Op): Part {
    if (op.madeBy === NOTHING && op.origin === NOTHING) return null;
    const forward = this.context.tree.stateOf(op).ops.get(op.forward);
    const list = this.origin(op.madeBy, op.origin, 0);
    if (op.origin === NOTHING && forward !== undefined) list.append(html("li", {}, "for ", this.opLink(this.context.tree.stateOf(op), forward)));
    return this.section("Provenance", list);
  }

  private origin(madeBy: number, origin: number, depth: number): HTMLElement {
    const [rule, ancestors] = this.data.tables.origins[origin] ?? [NOTHING, []];
    const list = html("ul", { class: "provenance" });
    const by = [madeBy === NOTHING ? "" : `made by ${this.text(madeBy)}`, rule === NOTHING ? "" : `rule ${this.text(rule)}`].filter(Boolean).join(", ");
    if (by) list.append(html("li", {}, by));
    for (const [text, line, by, from] of ancestors) {
      const item = html("li", {}, "from ", html("code", {}, this.text(text)));
      if (line !== NOTHING) item.append(html("div", { class: "note" }, `written at ${placeOf(this.data, line)}`));
      if (depth < 12 && (by !== NOTHING || from !== NOTHING)) item.append(this.origin(by, from, depth + 1));
      list.append(item);
    }
    return list;
  }

  // -- a value ------------------------------------------------------------------------------------

  showValue(context: Context, id: number): void {
    this.context = context;
    const state = context.tree.after.values.has(id) ? context.tree.after : context.tree.before;
    const value = state.values.get(id);
    if (value === undefined) return this.showPass(context);
    const marks = [[GIVEN, "given from outside"], [PERSISTABLE, "persistable"], [STOPPED, "gradients stop here"], [TARGET, "requested"]] as const;
    const gradients = [...state.values.values()].filter((each) => each.gradientOf === id);
    const links = (ops: number[]): Part[] => (ops.length ? ops.map((op) => html("p", {}, this.opLink(state, state.ops.get(op)!))) : [html("p", { class: "note" }, "none")]);
    this.fill(
      heading(shown(value), "value"),
      table([["type", value.type], ["marks", marks.filter(([bit]) => value.marks & bit).map(([, text]) => text).join(", ") || null]]),
      this.section("Producer", ...links(state.writers(id))),
      this.section("Consumers", ...links(state.readers(id))),
      value.gradientOf !== NOTHING ? this.section("Gradient of", html("p", {}, this.valueLink(state, value.gradientOf))) : null,
      gradients.length ? this.section("Gradients", ...gradients.map((each) => html("p", {}, this.valueLink(state, each.id)))) : null,
      value.residual !== NOTHING ? this.section("Residual", html("p", {}, "stands for ", this.valueLink(state, value.residual), " of the forward graph")) : null,
      this.statistics(value),
      this.code("Source", state.ops.get(state.writers(id)[0] ?? NOTHING)?.source ?? NOTHING),
    );
  }

  private statistics(value: Value | undefined): Part {
    const found = value === undefined ? undefined : this.data.values[value.id];
    if (value === undefined || found === undefined) return null;
    const [min, max, mean, , nan, inf, zero, size, times, ranges] = found;
    const share = (count: number): string | null => (count ? `${count.toLocaleString("en")} of ${size.toLocaleString("en")}` : null);
    return this.section(
      `Values of ${shown(value)}`,
      table([["min", min === null ? null : String(min)], ["max", max === null ? null : String(max)], ["mean", mean === null ? null : String(mean)], ["nan", nan ? share(nan)! : "none"], ["infinite", share(inf)], ["zeros", share(zero)], ["computed", times ? `${times} times` : null]]),
      histogram(found),
      rangesOf(ranges ?? [], times ?? 0),
    );
  }

  // -- a group ------------------------------------------------------------------------------------

  showGroup(context: Context, group: Group): void {
    this.context = context;
    const types = new Map<string, number>();
    for (const id of group.ops) {
      const type = context.tree.op(id).type;
      types.set(type, (types.get(type) ?? 0) + 1);
    }
    const kinds = { repeat: "layers that repeat", turn: "one layer of several", part: "part of what does not repeat", scope: "name scope", region: "nested graph", branch: "branch", root: "" };
    const flops = group.ops.reduce((sum, id) => sum + (context.costs.get(id)?.[0] ?? 0), 0);
    this.fill(
      heading(group.title, kinds[group.kind]),
      this.button(group.isOpen ? "Close" : "Open", () => this.onToggle(group.key)),
      table([["operators", String(group.ops.length)], ["operations", flops ? short(flops) : null]]),
      group.kind === "repeat" ? this.differences(group) : null,
      this.section("Operators", table([...types].sort((a, b) => b[1] - a[1]).map(([type, count]) => [type, `× ${count}`]))),
    );
  }

  /** In what the layers that repeat differ: attributes of operators in the same place, and types of what they write. */
  private differences(group: Group): Part {
    const all = group.children.map((item) => ("ops" in item ? item.ops : item.op ? [item.op.id] : []));
    const usual = mostUsual(all, (ops) => String(ops.length)).length;
    const turns = all.filter((ops) => ops.length === usual);
    const found = new Map<string, string[]>();
    if (turns.length < all.length) found.set("operators", [`${turns.length} layers have ${usual}`, `${all.length - turns.length} have more or fewer`]);
    const { tree, history } = this.context;
    turns[0]?.forEach((first, place) => {
      const same = turns.map((ops) => tree.op(ops[place] ?? first));
      const rows = same.map((op) => new Map(history.attributes(op.attributes)));
      for (const name of rows[0]!.keys()) {
        const values = [...new Set(rows.map((row) => row.get(name) ?? ""))];
        if (values.length > 1 && !name.startsWith("op_")) found.set(`${tree.op(first).type}.${name}`, values);
      }
      const types = [...new Set(same.map((op) => writes(op).map((value) => tree.stateOf(op).values.get(value)?.type ?? "?").join(" ")))];
      if (types.length > 1) found.set(`${tree.op(first).type}: types`, types);
    });
    const named = html("p", { class: "note" }, "The layers have the same operators, in the same arrangement.");
    if (found.size === 0) return this.section("What differs", named);
    return this.section("What differs", named, table([...found].slice(0, 8).map(([name, values]) => [name, values.slice(0, 6).join(", ")])));
  }

  // -- parts --------------------------------------------------------------------------------------

  private text(number: number): string {
    return this.context.history.text(number);
  }

  private link(text: string, onClick: () => void): HTMLElement {
    return html("button", { type: "button", class: "link", click: onClick }, text);
  }

  private button(text: string, onClick: () => void): HTMLElement {
    return html("button", { type: "button", class: "plain", click: onClick }, text);
  }

  private opLink(state: State, op: Op | undefined): HTMLElement {
    if (op === undefined) return html("span", {}, "?");
    const outs = writes(op).slice(0, 2).map((value) => shown(state.values.get(value))).join(", ");
    return this.link(`${op.type} → ${outs}`, () => this.onOp(op.id));
  }

  private valueLink(state: State, id: number): HTMLElement {
    return this.link(shown(state.values.get(id)), () => this.onValue(id));
  }

  private section(title: string, ...parts: Part[]): HTMLElement {
    return html("section", { class: "part" }, html("h3", {}, title), ...parts);
  }

  /** A line of source among its neighbors. */
  private code(title: string, line: number): Part {
    const place = this.data.tables.lines[line];
    if (place === undefined) return null;
    const [file, at] = place;
    const around = Object.entries(this.data.tables.files[file] ?? {}).filter(([number]) => Math.abs(Number(number) - at) <= 3);
    const rows = around.map(([number, text]) => html("div", { class: Number(number) === at ? "here" : "" }, html("i", {}, number), ` ${text}`));
    return this.section(title, html("p", { class: "note place" }, `${file}:${at}`), rows.length ? html("pre", { class: "source" }, ...rows) : null);
  }
}

function heading(text: string, kind: string): HTMLElement {
  return html("h2", {}, text, " ", html("small", {}, kind));
}

function table(rows: [string, string | null][]): HTMLElement | null {
  const shown = rows.filter(([, value]) => value !== null && value !== "");
  if (shown.length === 0) return null;
  return html("table", {}, html("tbody", {}, ...shown.map(([name, value]) => html("tr", {}, html("th", {}, name), html("td", {}, value)))));
}

export function short(count: number): string {
  const units: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, unit] = units.find(([each]) => count >= each) ?? [1, ""];
  return `${size === 1 ? count : (count / size).toPrecision(3)}${unit && ` ${unit}`}`;
}

/** The range of a value at each of its iterations, from the first to the last. */
function rangesOf(ranges: ([number, number] | null)[], times: number): Part {
  const known = ranges.filter((range) => range !== null);
  if (ranges.length < 2 || known.length === 0) return null;
  const [low, high] = [Math.min(...known.map(([each]) => each)), Math.max(...known.map(([, each]) => each))];
  const [width, height] = [240, 48];
  const at = (number: number): number => (high > low ? ((high - number) / (high - low)) * height : height / 2);
  const step = width / ranges.length;
  const bars = ranges.map((range, i) =>
    range === null ? null : svg("rect", { x: i * step + 0.5, y: at(range[1]), width: Math.max(step - 1, 1), height: Math.max(at(range[0]) - at(range[1]), 1.5) }, svg("title", {}, `${range[0]} to ${range[1]}`)),
  );
  const picture = svg("svg", { class: "histogram ranges", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `ranges of ${times} iterations, from ${low} to ${high}` }, ...bars);
  return html("figure", {}, picture, html("figcaption", {}, html("span", {}, "range, first iteration"), html("span", {}, "last")));
}

function histogram([min, max, , bins]: Summary): Part {
  if (bins.length < 2) return null;
  const [width, height, most] = [240, 60, Math.max(...bins)];
  const step = width / bins.length;
  const bars = bins.map((count, i) => svg("rect", { x: i * step + 0.5, y: height - (count / most) * height, width: step - 1, height: (count / most) * height }, svg("title", {}, String(count))));
  const picture = svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `histogram from ${min} to ${max}` }, ...bars);
  return html("figure", {}, picture, html("figcaption", {}, html("span", {}, String(min)), html("span", {}, String(max))));
}
