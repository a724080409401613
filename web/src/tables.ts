/** The same data as tables: bars of idle time by cause, differences between timelines, and every action. */
import type { Cause, Head, IdleTime, Timeline } from "./data";
import { nameOf } from "./card";
import { button, choice, el } from "./dom";
import { grouped, showTime, unitOf } from "./scale";
import { say } from "./words";

const PAGE = 100;
const PARTS: [keyof IdleTime, Cause, string][] = [
  ["fill_drain_ns", "fill", "fill_drain"],
  ["imbalance_ns", "imbalance", "imbalance"],
  ["recompute_ns", "recomputing", "recomputing"],
  ["communication_ns", "communication", "communication"],
  ["host_copies_ns", "copying", "host_copies"],
];

/** Add bars of idle time by cause to the table of the ranks. */
export function addBars(table: HTMLTableElement, timeline: Timeline): void {
  const { head } = timeline;
  const row = table.tHead?.rows[0];
  if (!row || head.makespan_ns === 0) return;
  row.append(el("th", { scope: "col", class: "bars" }, say("idle_share")));
  const idle = head.busy_ns.map((busy) => head.makespan_ns - busy);
  const most = Math.max(...idle, 1);
  [...table.tBodies[0].rows].forEach((each, rank) => {
    const bar = el("span", { class: "bar" });
    // A cause can also save time: what the gaps themselves are made of is never negative.
    for (const [cause, length] of partsOf(timeline, rank)) {
      const part = el("span", { class: `cause-${cause}` });
      part.style.width = `${(100 * length) / most}%`;
      bar.append(part);
    }
    const share = `${grouped((100 * idle[rank]) / head.makespan_ns, 1)} %`;
    each.append(el("td", { class: "bars" }, el("span", { class: "share" }, share), bar));
  });
}

function partsOf(timeline: Timeline, rank: number): [string, number][] {
  const { causes, gap, head } = timeline;
  const gaps = [...Array(head.rank_starts[rank + 1] - head.rank_starts[rank]).keys()].map((at) => head.rank_starts[rank] + at);
  const sum = (values: Float64Array): number => [...gaps, timeline.tail(rank)].reduce((all, index) => all + values[index], 0);
  return causes === null ? [["unknown", sum(gap)]] : PARTS.map(([, cause]) => [cause, sum(causes[cause])]);
}

/** How every other timeline differs from the first, by rank. */
export function differences(head: Head, timelines: readonly Timeline[]): HTMLElement {
  const [base, ...others] = timelines;
  const ranks = Math.max(...timelines.map((each) => each.head.ranks));
  const withCauses = timelines.every((each) => each.head.idle !== null);
  const parts = PARTS.filter(([key]) => key !== "host_copies_ns" || timelines.some((each) => each.copies.length > 0));
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
      ...(withCauses ? parts.map(([key]) => idle?.[key] ?? 0) : []),
      ...(withMemory ? [one.peak_bytes![rank]] : []),
    ];
  };
  const [size, name] = unitOf(Math.max(...timelines.map((each) => each.head.makespan_ns)));
  const digits = size === 1 ? 0 : Math.max(0, 4 - Math.floor(Math.log10(Math.max(...timelines.map((each) => each.head.makespan_ns / size), 1))));
  const show = (column: string, value: number | null): string =>
    value === null ? "–" : column === "peak" ? signed(value / head.unit.bytes, 2) : signed(value / size, digits);
  const heads = el("tr", {}, el("th", { scope: "col" }, say("rank")));
  const groups = el("tr", {}, el("td"));
  for (const { head: other } of others) {
    groups.append(el("th", { scope: "colgroup", colspan: columns.length }, say("against", { name: other.name, base: base.head.name })));
    for (const column of columns) heads.append(el("th", { scope: "col" }, `${say(column)}, ${column === "peak" ? head.unit.name : name}`));
  }
  const body = el("tbody");
  for (let rank = 0; rank < ranks; rank++) {
    const row = el("tr", {}, el("th", { scope: "row" }, say("rank_label", { rank })));
    const mine = values(base, rank);
    for (const other of others) {
      values(other, rank).forEach((value, place) => {
        const own = mine[place];
        const change = value === null || own === null ? null : value - own;
        const mark = change === null || change === 0 ? "" : change > 0 ? "more" : "less";
        row.append(el("td", { class: mark }, show(columns[place], change)));
      });
    }
    body.append(row);
  }
  const steps = others.map(({ head: other }) => {
    const change = other.makespan_ns - base.head.makespan_ns;
    const percent = `${change > 0 ? "+" : ""}${grouped((100 * change) / Math.max(base.head.makespan_ns, 1), 2)} %`;
    const text = say("step_difference", {
      name: other.name, step: showTime(other.makespan_ns), base: base.head.name, before: showTime(base.head.makespan_ns),
      change: `${change > 0 ? "+" : ""}${signedTime(change)}`, percent,
    });
    return el("li", {}, text);
  });
  const table = el("table", { class: "ranks differences" }, el("caption", {}, say("differences")), el("thead", {}, groups, heads), body);
  return el("div", {}, el("ul", { class: "decision" }, ...steps), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("differences") }, table));
}

function signedTime(time: number): string {
  return time < 0 ? `−${showTime(-time)}` : showTime(time);
}

/** A difference: with a plus or a true minus, unless it rounds to nothing. */
function signed(value: number, digits: number): string {
  const text = grouped(value, digits);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/** All actions of a rank, a hundred at a time; made when somebody opens it. */
export function actionTable(timeline: Timeline, choose: (action: number) => void): HTMLDetailsElement {
  const { head } = timeline;
  const place = el("div");
  let [rank, page] = [0, 0];
  const draw = (): void => {
    const [first, end] = [head.rank_starts[rank], head.rank_starts[rank + 1]];
    const pages = Math.max(1, Math.ceil((end - first) / PAGE));
    page = Math.min(page, pages - 1);
    const body = el("tbody");
    for (let index = first + page * PAGE; index < Math.min(end, first + (page + 1) * PAGE); index++) {
      const input = timeline.input[index];
      body.append(
        el(
          "tr",
          {},
          el("th", { scope: "row" }, button(nameOf(timeline, index), () => choose(index), { class: "link" })),
          el("td", {}, showTime(timeline.start[index])),
          el("td", {}, showTime(timeline.end[index] - timeline.start[index])),
          el("td", {}, showTime(timeline.recompute[index])),
          el("td", {}, showTime(timeline.gap[index])),
          el("td", {}, input < 0 ? "–" : nameOf(timeline, input)),
        ),
      );
    }
    const heads = ["table_action", "begins", "takes", "of_that_recompute", "idle_before", "needs"];
    const ranks: [string, string][] = [...Array(head.ranks).keys()].map((each) => [String(each), say("rank_label", { rank: each })]);
    place.replaceChildren(
      el(
        "div",
        { class: "tools" },
        choice(say("rank"), ranks, String(rank), (value) => { [rank, page] = [Number(value), 0]; draw(); }),
        button(say("previous"), () => { page -= 1; draw(); }, { disabled: page === 0 }),
        el("span", { class: "count" }, say("page_of", { page: page + 1, pages })),
        button(say("next"), () => { page += 1; draw(); }, { disabled: page >= pages - 1 }),
      ),
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": say("actions") },
        el("table", { class: "actions" }, el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), body),
      ),
    );
  };
  const details = el("details", { class: "actions" }, el("summary", {}, say("actions")), place);
  details.addEventListener("toggle", () => { if (details.open && place.childElementCount === 0) draw(); });
  return details;
}
