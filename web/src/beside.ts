/** Timelines beside each other: their steps as a table, and how they differ by rank and by action. */
import { nameOf } from "./card";
import { counterparts } from "./counterparts";
import type { Head, Timeline } from "./data";
import { button, choice, el } from "./dom";
import { OPS } from "./legend";
import { grouped, showMemory, showTime, unitOf } from "./scale";
import { PARTS } from "./tables";
import { comparison, longerBy, stepOf } from "./work";
import { say } from "./words";

const MOST_ACTIONS = 50;

/** Steps, how much longer they are than that of the first, and memory. */
export function stepTable(head: Head, timelines: readonly Timeline[], open: (timeline: Timeline) => void): HTMLElement {
  const base = timelines[0].head;
  const rows = timelines.map((timeline, place) => {
    const { head: own } = timeline;
    const step = stepOf(own);
    const longer = longerBy(base, own);
    const isMore = longer !== null && longer > 0;
    const change = place === 0 || longer === null ? "–" : `${signedTime(longer)} (${signed((100 * longer) / Math.max(stepOf(base), 1), 2)} %)`;
    const peak = own.peak_bytes === null ? null : Math.max(...own.peak_bytes);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, button(own.name, () => open(timeline), { class: "link" }), own.kind === "measured" && el("span", { class: "badge" }, say("measured"))),
      el("td", {}, showTime(step)),
      el("td", { class: place === 0 || !longer ? "" : isMore ? "more" : "less" }, change),
      el("td", {}, showTime(step / own.microbatches)),
      el("td", { class: peak !== null && own.limit_bytes !== null && peak > own.limit_bytes ? "more" : "" }, fits(head, peak, own.limit_bytes)),
      el("td", {}, peak === null ? "–" : `${say("rank_label", { rank: own.peak_bytes!.indexOf(peak) })}: ${showMemory(peak, head.unit)}`),
    );
  });
  const heads = ["timeline", "step", "longer_by", "per_microbatch", "fits", "peak_rank"];
  const notes = timelines.slice(1).map(({ head: own }) => noteOn(base, own)).filter((note) => note !== "");
  const table = el("table", { class: "steps" }, el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), el("tbody", {}, ...rows));
  return el("div", {}, scrolled(say("steps"), table), ...notes.map((note) => el("p", { class: "note" }, note)));
}

function fits(head: Head, peak: number | null, limit: number | null): string {
  if (peak === null || limit === null) return "–";
  return say(peak <= limit ? "fits_by" : "over_by", { memory: showMemory(Math.abs(limit - peak), head.unit) });
}

/** What must be known of work that is not that of the first; empty for equal work. */
function noteOn(base: Timeline["head"], own: Timeline["head"]): string {
  const values = { name: own.name, base: base.name, own: own.microbatches, others: base.microbatches };
  const { kind } = comparison(base, own);
  if (kind === "equal") return "";
  return say(kind === "by_microbatch" ? "unequal_microbatches" : kind === "by_token" ? "unequal_tokens" : "unequal_work", values);
}

/** Differences by rank and by action from the first, of timelines that do equal work; null without any. */
export function differencesOf(head: Head, timelines: readonly Timeline[]): HTMLElement[] {
  const [base, ...others] = timelines;
  const equal = others.filter((each) => comparison(base.head, each.head).kind === "equal");
  if (equal.length === 0) return [];
  const fold = (name: string, title: string, make: () => HTMLElement): HTMLElement => {
    const details = el("details", { class: name }, el("summary", {}, title));
    details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(make()); });
    return details;
  };
  return [
    fold("by-rank", say("differences"), () => differences(head, [base, ...equal])),
    fold("by-action", say("differences_by_action"), () => byAction(base, equal)),
  ];
}

const ORDERS = ["takes", "begins", "idle_before"] as const;

/** The actions that differ most. */
function byAction(base: Timeline, others: readonly Timeline[]): HTMLElement {
  const place = el("div");
  let [order, which] = [0, 0];
  const draw = (): void => {
    const other = others[which];
    const own = counterparts(base, other);
    const values: ((timeline: Timeline, action: number) => number)[] = [
      (timeline, action) => timeline.end[action] - timeline.start[action],
      (timeline, action) => timeline.start[action],
      (timeline, action) => timeline.gap[action],
    ];
    const sign = isPrediction(base, other) ? -1 : 1;
    const changes = values.map((value) => (action: number): number => sign * (value(other, own[action]) - value(base, action)));
    const common = [...own.keys()].filter((action) => own[action] >= 0);
    const sizes = new Map(common.map((action) => [action, Math.abs(changes[order](action))]));
    const most = common.filter((action) => sizes.get(action)! > 0).toSorted((one, next) => sizes.get(next)! - sizes.get(one)! || one - next).slice(0, MOST_ACTIONS);
    const body = most.map((action) => {
      const cells = changes.map((change) => change(action)).map((change) => el("td", { class: change > 0 ? "more" : change < 0 ? "less" : "" }, signedTime(change)));
      return el("tr", {}, el("th", { scope: "row" }, nameOf(base, action)), ...cells);
    });
    const heads = [say("table_action"), ...ORDERS.map((key) => say(key))].map((text) => el("th", { scope: "col" }, text));
    const alone = base.actions - common.length + other.actions - common.length;
    place.replaceChildren(
      el(
        "div",
        { class: "tools" },
        choice(say("timeline"), others.map((each, index) => [String(index), each.head.name]), String(which), (value) => { which = Number(value); draw(); }),
        choice(say("largest_by"), ORDERS.map((key, index) => [String(index), say(key)]), String(order), (value) => { order = Number(value); draw(); }),
      ),
      el("p", { class: "note" }, against(base, other)),
      byStage(base, other, own),
      scrolled(say("differences_by_action"), el("table", { class: "by-action" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body))),
    );
    if (alone > 0) place.append(el("p", { class: "note" }, say("actions_alone", { count: alone })));
  };
  draw();
  return place;
}

/** Whether what stands first was predicted, and another one measured: then the prediction less what was measured is told. */
function isPrediction(base: Timeline, other: Timeline): boolean {
  return base.head.kind === "plan" && other.head.kind === "measured";
}

function against({ head: base }: Timeline, { head: other }: Timeline): string {
  if (base.kind === "plan" && other.kind === "measured") return say("predicted_minus", { name: base.name, base: other.name });
  return say("against", { name: other.name, base: base.name });
}

/** Mean times of the actions of every stage in both, and their difference. */
function byStage(base: Timeline, other: Timeline, own: Int32Array): HTMLElement {
  const sums = new Map<string, { action: number; count: number; times: [number, number] }>();
  for (let action = 0; action < base.actions; action++) {
    if (own[action] < 0) continue;
    const key = `${String(base.stage[action]).padStart(6, "0")} ${base.op[action]}`;
    const sum = sums.get(key) ?? { action, count: 0, times: [0, 0] };
    sum.count += 1;
    sum.times[0] += base.end[action] - base.start[action];
    sum.times[1] += other.end[own[action]] - other.start[own[action]];
    sums.set(key, sum);
  }
  const sign = isPrediction(base, other) ? -1 : 1;
  const rows = [...sums.keys()].sort().map((key) => {
    const { action, count, times } = sums.get(key)!;
    const [one, next] = times.map((time) => time / count);
    const change = Math.round(sign * (next - one));
    const name = `${say("stage_label", { stage: base.stage[action] })}, ${say(OPS[base.letter(action)])}`;
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, showTime(one)), el("td", {}, showTime(next)), el("td", { class: change > 0 ? "more" : change < 0 ? "less" : "" }, signedTime(change)));
  });
  const heads = [say("by_stage"), base.head.name, other.head.name, say("difference")].map((text) => el("th", { scope: "col" }, text));
  return scrolled(say("by_stage"), el("table", { class: "by-stage" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
}

function scrolled(label: string, table: HTMLElement): HTMLElement {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
}

/** How every other timeline differs from the first, by rank. */
function differences(head: Head, timelines: readonly Timeline[]): HTMLElement {
  const [base, ...others] = timelines;
  const ranks = Math.max(...timelines.map((each) => each.head.ranks));
  const withCauses = timelines.every((each) => each.head.idle !== null);
  const isMixed = timelines.some((each) => each.head.idle?.[0]?.waiting_ns !== undefined);
  const parts = PARTS.filter(([key]) =>
    key === "communication_ns" || (isMixed ? key === "waiting_ns" : key !== "waiting_ns" && (key !== "host_copies_ns" || timelines.some((each) => each.copies.length > 0))),
  );
  const withMemory = timelines.every((each) => each.head.peak_bytes !== null);
  const columns = [
    "busy",
    "idle",
    ...(withCauses ? parts.map(([, , word]) => word) : []),
    ...(withMemory ? ["peak"] : []),
  ];
  const values = ({ head: one }: Timeline, rank: number): (number | null)[] => {
    if (rank >= one.ranks) return columns.map(() => null);
    const idle = one.idle?.[rank];
    return [
      one.busy_ns[rank],
      one.makespan_ns - one.busy_ns[rank],
      ...(withCauses ? parts.map(([key]) => (key === "waiting_ns" && idle ? idle.total_ns - idle.communication_ns : (idle?.[key] ?? 0))) : []),
      ...(withMemory ? [one.peak_bytes![rank]] : []),
    ];
  };
  const [size, name] = unitOf(Math.max(...timelines.map((each) => each.head.makespan_ns)));
  const digits = size === 1 ? 0 : Math.max(0, 4 - Math.floor(Math.log10(Math.max(...timelines.map((each) => each.head.makespan_ns / size), 1))));
  const show = (column: string, value: number | null): string =>
    value === null ? "–" : column === "peak" ? signed(value / head.unit.bytes, 2) : signed(value / size, digits);
  const heads = el("tr", {}, el("th", { scope: "col" }, say("rank")));
  const groups = el("tr", {}, el("td"));
  for (const other of others) {
    groups.append(el("th", { scope: "colgroup", colspan: columns.length }, against(base, other)));
    for (const column of columns) heads.append(el("th", { scope: "col" }, `${say(column)}, ${column === "peak" ? head.unit.name : name}`));
  }
  const body = el("tbody");
  for (let rank = 0; rank < ranks; rank++) {
    const row = el("tr", {}, el("th", { scope: "row" }, say("rank_label", { rank })));
    const mine = values(base, rank);
    for (const other of others) {
      values(other, rank).forEach((value, place) => {
        const own = mine[place];
        const change = value === null || own === null ? null : (isPrediction(base, other) ? -1 : 1) * (value - own);
        const mark = change === null || change === 0 ? "" : change > 0 ? "more" : "less";
        row.append(el("td", { class: mark }, show(columns[place], change)));
      });
    }
    body.append(row);
  }
  const table = el("table", { class: "ranks differences" }, el("thead", {}, groups, heads), body);
  return scrolled(say("differences"), table);
}

/** A difference of times: with a plus or a true minus. */
function signedTime(time: number): string {
  return time === 0 ? "0" : `${time < 0 ? "−" : "+"}${showTime(Math.abs(time))}`;
}

/** A difference: with a plus or a true minus, unless it rounds to nothing. */
function signed(value: number, digits: number): string {
  const text = grouped(value, digits);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

