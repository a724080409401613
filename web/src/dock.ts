/** What is chosen, told below the timelines as long as it is: an action or a gap, memory then, sums of a range, the critical path. */
import { card, causesOf, encoderCard, nameOf } from "./card";
import { CAUSES, CAUSE_WORDS, type Head, type Timeline } from "./data";
import { button, el } from "./dom";
import { grouped, showMemory, showTime } from "./scale";
import { gapAt, heldAt, type RankSums, sumsOf, totalOf } from "./sums";
import type { Viewer } from "./viewer";
import { say } from "./words";

type Row = [string, string];

export interface Others {
  viewer: Viewer;
  action: number;
}

/** Fill the dock with what is chosen in a viewer; hide it where that is nothing. `others` have the same action. */
export function fillDock(dock: HTMLElement, head: Head, viewer: Viewer, others: readonly Others[], showsPath: boolean): void {
  const parts = [pointPart(head, viewer, others), rangePart(viewer), showsPath ? pathPart(viewer.data) : null].filter((part) => part !== null);
  dock.hidden = parts.length === 0;
  if (dock.hidden) {
    dock.replaceChildren();
    return;
  }
  const close = button("×", () => {
    viewer.clear();
    viewer.focus();
  }, { class: "close", "aria-label": say("close_dock"), title: say("close_dock") });
  dock.replaceChildren(...(viewer.point !== null || viewer.range !== null ? [close] : []), ...parts);
}

function pointPart(head: Head, viewer: Viewer, others: readonly Others[]): HTMLElement | null {
  const { point, selected, data } = viewer;
  if (point === null) return null;
  const action = selected >= 0 ? selected : data.at(point.rank, point.time);
  const [[, title], ...rows] = action >= 0 ? card(head, data, action) : gapRows(data, point.rank, point.time);
  const at = selected >= 0 ? data.start[action] : point.time;
  const memory = memoryRows(head, data, point.rank, at);
  const compared = others.map(({ viewer: other, action: same }): Row => [
    other.data.head.name,
    same < 0 ? say("not_there") : say("differs_by", { begins: change(other.data.start[same] - data.start[action]), takes: change(length(other.data, same) - length(data, action)) }),
  ]);
  const goes: [string, number][] = action < 0 ? [["go_behind", gapAt(data, point.rank, point.time).behind]] : [["go_decided", data.decidedBy(action)], ["go_needs", data.input[action]], ["go_needed", data.consumer(action)]];
  const buttons = goes.filter(([, to]) => to >= 0).map(([word, to]) => button(say(word), () => viewer.select(to, true)));
  return el("section", { class: "chosen" }, el("h3", {}, title), list([...rows, ...memory, ...compared]), el("div", { class: "tools" }, ...buttons));
}

function length(timeline: Timeline, action: number): number {
  return timeline.end[action] - timeline.start[action];
}

function change(time: number): string {
  return `${time < 0 ? "−" : "+"}${showTime(Math.abs(time))}`;
}

function gapRows(timeline: Timeline, rank: number, time: number): Row[] {
  const encoder = timeline.encoderAt(rank, time);
  if (encoder !== null) return encoderCard(timeline, ...encoder);
  const { place, behind, from, to } = gapAt(timeline, rank, time);
  const rows: Row[] = [["", say("idle_on", { rank })], [say("begins"), showTime(from)], [say("takes"), showTime(to - from)], ...causesOf(timeline, place)];
  if (behind < 0) return [...rows, [say("until"), say("end_of_step")]];
  rows.push([say("until"), nameOf(timeline, behind)]);
  const decided = timeline.decidedBy(behind);
  if (decided >= 0) rows.push([say("waits_for"), nameOf(timeline, decided)]);
  return rows;
}

function memoryRows(head: Head, timeline: Timeline, rank: number, time: number): Row[] {
  const held = heldAt(timeline, rank, time);
  if (held === null) return [];
  const { limit_bytes: limit } = timeline.head;
  const values = { held: showMemory(held.bytes, head.unit), time: showTime(time) };
  const whole = limit === null ? values.held : say(held.bytes <= limit ? "held_free" : "held_over", { ...values, memory: showMemory(Math.abs(limit - held.bytes), head.unit) });
  return [
    [say("holds_at", values), whole],
    [`– ${say("held_fixed")}`, showMemory(held.fixed, head.unit)],
    [`– ${say("held_moving")}`, showMemory(held.bytes - held.fixed, head.unit)],
  ];
}

function rangePart(viewer: Viewer): HTMLElement | null {
  const { range, data } = viewer;
  if (range === null) return null;
  const ranks = sumsOf(data, range);
  const total = totalOf(ranks);
  const causes = total.causes === null ? [] : CAUSES.filter((cause) => total.causes![cause] > 0);
  const cells = (sums: RankSums): string[] => [
    showTime(sums.busy), showTime(sums.idle), ...causes.map((cause) => showTime(sums.causes![cause])), ...(total.messages > 0 ? [showTime(sums.messages)] : []),
  ];
  const row = (name: string, sums: RankSums): HTMLElement => el("tr", {}, el("th", { scope: "row" }, name), ...cells(sums).map((text) => el("td", {}, text)));
  const heads = [say("rank"), say("busy"), say("idle"), ...causes.map((cause) => `– ${say(CAUSE_WORDS[cause])}`), ...(total.messages > 0 ? [say("messages_travel")] : [])];
  const table = el(
    "table",
    { class: "sums" },
    el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...ranks.map((sums, rank) => row(say("rank_label", { rank }), sums)), row(say("all_ranks"), total)),
  );
  const title = say("range_title", { from: showTime(range.from), to: showTime(range.to), length: showTime(range.to - range.from) });
  return el("section", { class: "range" }, el("h3", {}, title), el("div", { class: "tools" }, button(say("zoom_to_range"), () => viewer.show(range))), table);
}

function pathPart(timeline: Timeline): HTMLElement | null {
  const { path, makespan_ns: step } = timeline.head;
  if (path.length === 0) return null;
  const most = path.reduce((best, share, rank) => (share.path_ns > path[best].path_ns ? rank : best), 0);
  const percent = (share: (typeof path)[number]): string => `${grouped((100 * share.path_ns) / Math.max(step, 1), 1)} %`;
  const sentence = say("path_sentence", { rank: most, share: percent(path[most]), off: showTime(path[most].off_ns), saved: showTime(path[most].saved_ns) });
  const rows = path
    .map((share, rank) => ({ share, rank }))
    .toSorted((one, other) => other.share.path_ns - one.share.path_ns || one.rank - other.rank)
    .map(({ share, rank }) => el("tr", {}, el("th", { scope: "row" }, say("rank_label", { rank })), el("td", {}, percent(share)), el("td", {}, say("off_saves", { off: showTime(share.off_ns), saved: showTime(share.saved_ns) }))));
  const heads = ["rank", "of_path", "less_work"];
  const table = el("table", { class: "path" }, el("thead", {}, el("tr", {}, ...heads.map((key) => el("th", { scope: "col" }, say(key))))), el("tbody", {}, ...rows));
  return el("section", { class: "path-shares" }, el("h3", {}, say("show_critical")), el("p", {}, sentence), table);
}

function list(rows: readonly Row[]): HTMLElement {
  return el("dl", { class: "facts" }, ...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
