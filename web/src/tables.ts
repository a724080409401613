/** The same data as tables: bars of idle time by cause, and every action. */
import type { Cause, IdleTime, Timeline } from "./data";
import { nameOf } from "./card";
import { button, choice, el } from "./dom";
import { grouped, showTime } from "./scale";
import { say } from "./words";

const PAGE = 100;
export const PARTS: [keyof IdleTime, Cause, string][] = [
  ["fill_drain_ns", "fill", "fill_drain"],
  ["imbalance_ns", "imbalance", "imbalance"],
  ["recompute_ns", "recomputing", "recomputing"],
  ["waiting_ns", "waiting", "waiting"],
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
