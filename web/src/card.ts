/** What is told of an action: rows of a name and a value, the first without a name. */
import { CAUSES, CAUSE_WORDS, COPIES, ENCODERS, type Head, type Timeline } from "./data";
import { OPS } from "./legend";
import { showTime } from "./scale";
import { say } from "./words";

/** `F 7, chunk 1 on rank 3`. */
export function nameOf(timeline: Timeline, action: number): string {
  const values = {
    action: say(OPS[timeline.letter(action)]),
    microbatch: timeline.microbatch(action),
    chunk: timeline.chunk(action),
    rank: timeline.rank(action),
  };
  return say(timeline.head.chunks > 1 ? "action_of_chunk" : "action", values);
}

export function card(head: Head, timeline: Timeline, action: number): [string, string][] {
  const { start, end, gap, recompute, input, message } = timeline;
  const rows: [string, string][] = [["", nameOf(timeline, action)]];
  if (timeline.head.splits > 1) {
    rows.push([say("part"), `${(timeline.unit[action] % timeline.head.splits) + 1} / ${timeline.head.splits}`]);
  }
  const layers = timeline.head.stage_layers[timeline.stage[action]];
  if (layers !== undefined && layers !== "") {
    rows.push([timeline.head.chunks > 1 && head.rank_word !== "stage" ? say("stage_label", { stage: timeline.stage[action] }) : say("layers"), layers]);
  }
  rows.push([say("begins"), showTime(start[action])], [say("takes"), showTime(end[action] - start[action])]);
  if (recompute[action] > 0) rows.push([say("of_that_recompute"), showTime(recompute[action])]);
  if (input[action] >= 0) {
    const way = message[action] > 0 ? say("message_takes", { time: showTime(message[action]) }) : "";
    rows.push([say("needs"), [nameOf(timeline, input[action]), way].filter(Boolean).join(", ")]);
  }
  if (gap[action] > 0) rows.push([say("idle_before"), showTime(gap[action])], ...causesOf(timeline, action));
  timeline.copies.forEach((copies, way) => {
    const place = timeline.copyOf(copies, action);
    if (place < 0) return;
    const [begins, takes] = [copies.start[place], copies.end[place] - copies.start[place]];
    rows.push([say(COPIES[way]), `${say("begins")} ${showTime(begins)}, ${say("takes")} ${showTime(takes)}`]);
  });
  const beside = timeline.beside(action);
  if (beside >= 0) {
    const saves = say("pair_saves", { time: showTime(timeline.saved![Math.min(action, beside)]) });
    rows.push([say("runs_beside"), `${nameOf(timeline, beside)}, ${saves}`]);
  }
  const decided = timeline.decidedBy(action);
  if (decided >= 0) rows.push([say("started_by"), nameOf(timeline, decided)]);
  return rows;
}

/** The same for what encoders do. */
export function encoderCard(timeline: Timeline, way: number, place: number): [string, string][] {
  const { rank, microbatch, start, end } = timeline.encoders[way];
  const values = { action: say(ENCODERS[way]), microbatch: microbatch[place], rank: rank[place] };
  return [["", say("action", values)], [say("begins"), showTime(start[place])], [say("takes"), showTime(end[place] - start[place])]];
}

/** The parts of a gap, the largest first. */
export function causesOf(timeline: Timeline, gap: number): [string, string][] {
  const { causes } = timeline;
  if (causes === null) return [];
  return CAUSES.map((cause) => [cause, causes[cause][gap]] as const)
    .filter(([, part]) => part > 0)
    .sort(([, one], [, other]) => other - one)
    .map(([cause, part]) => [`– ${say(CAUSE_WORDS[cause])}`, showTime(part)]);
}
