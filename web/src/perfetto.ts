/** Timelines as a Chrome trace, which Perfetto opens: the same events as `export/chrome_trace.py` writes. */
import { CAUSES, type Head, type Timeline } from "./data";

const CATEGORIES: Record<string, string> = { F: "forward", B: "backward", I: "input gradient", W: "weight gradient" };
const CAUSE_NAMES = { fill: "fill and drain", imbalance: "imbalance", recomputing: "recompute", waiting: "waiting", communication: "communication", copying: "host copies" };
const [WORK, IDLE] = [1, 2];
const COPY_THREADS = [3, 4];
const COPY_NAMES = ["to host", "from host"];
const ENCODER_THREAD = 5;
const ENCODER_NAMES = ["encoder forward", "encoder backward"];

export function chromeTrace(head: Head, timelines: readonly Timeline[]): string {
  const events: string[] = [];
  let [process, flow] = [1, 1];
  for (const timeline of timelines) {
    const group = timelines.length > 1 ? `${timeline.head.name}: ` : "";
    processes(events, head, timeline, group, process);
    actions(events, timeline, process, flow);
    if (timeline.causes !== null) idle(events, timeline, process);
    copies(events, timeline, process);
    encoders(events, timeline, process);
    memory(events, timeline, process);
    process += timeline.head.ranks;
    flow += timeline.head.microbatches * timeline.head.splits;
  }
  return `{\n  "displayTimeUnit": "ns",\n  "traceEvents": [\n${events.join(",\n")}\n]\n}\n`;
}

function processes(events: string[], head: Head, timeline: Timeline, group: string, first: number): void {
  for (let rank = 0; rank < timeline.head.ranks; rank++) {
    const pid = first + rank;
    const name = `${group}${head.rank_word} ${rank}`;
    events.push(JSON.stringify({ ph: "M", pid, name: "process_name", args: { name } }));
    events.push(JSON.stringify({ ph: "M", pid, name: "process_sort_index", args: { sort_index: pid } }));
    events.push(JSON.stringify({ ph: "M", pid, tid: WORK, name: "thread_name", args: { name: "work" } }));
    if (timeline.causes !== null) {
      events.push(JSON.stringify({ ph: "M", pid, tid: IDLE, name: "thread_name", args: { name: "idle by cause" } }));
    }
    timeline.copies.forEach((_copies, way) => {
      events.push(JSON.stringify({ ph: "M", pid, tid: COPY_THREADS[way], name: "thread_name", args: { name: COPY_NAMES[way] } }));
    });
    if (timeline.encoders.length > 0) {
      events.push(JSON.stringify({ ph: "M", pid, tid: ENCODER_THREAD, name: "thread_name", args: { name: "encoder" } }));
    }
  }
}

function actions(events: string[], timeline: Timeline, process: number, firstFlow: number): void {
  const { start, end, recompute, input, unit, lead } = timeline;
  const isNeeded = new Uint8Array(timeline.actions);
  for (const each of input) if (each >= 0) isNeeded[each] = 1;
  for (const index of inTime(timeline)) {
    const where = `"pid":${process + timeline.rank(index)},"tid":${WORK},"ts":`;
    const letter = timeline.letter(index);
    const name = `${letter}${numbersOf(timeline, index)}`;
    const about = aboutOf(timeline, index);
    const flow =
      input[index] >= 0 || isNeeded[index] === 1
        ? `"bind_id":"0x${(firstFlow + unit[index]).toString(16)}",${input[index] >= 0 ? '"flow_in":true,' : ""}${isNeeded[index] ? '"flow_out":true,' : ""}`
        : "";
    events.push(
      `{"ph":"B",${where}${us(lead + start[index])},${flow}"name":"${name}","cat":"${CATEGORIES[letter]}","args":${JSON.stringify(about)}}`,
    );
    if (recompute[index] > 0) {
      events.push(`{"ph":"B",${where}${us(lead + start[index])},"cat":"recompute","name":"recompute"}`);
      events.push(`{"ph":"E",${where}${us(lead + start[index] + recompute[index])}}`);
    }
    events.push(`{"ph":"E",${where}${us(lead + end[index])}}`);
  }
}

/** Microbatch, part and chunk of an action, as they stand in its name. */
function numbersOf(timeline: Timeline, index: number): string {
  const { chunks, splits } = timeline.head;
  const part = splits > 1 ? ` part ${timeline.unit[index] % splits}` : "";
  return `${timeline.microbatch(index)}${part}${chunks > 1 ? ` chunk ${timeline.chunk(index)}` : ""}`;
}

/** What is told of an action beside its name. */
function aboutOf(timeline: Timeline, index: number): object {
  const stage = timeline.stage[index];
  return { stage, chunk: timeline.chunk(index), layers: timeline.head.stage_layers[stage] ?? "", microbatch: timeline.microbatch(index) };
}

/** Actions by their starts, causes before their effects where these are equal. */
function inTime(timeline: Timeline): number[] {
  const depth = depths(timeline);
  return [...depth.keys()].sort((one, other) => timeline.start[one] - timeline.start[other] || depth[one] - depth[other]);
}

/** For each action how many stand before it on the longest way to it. */
function depths(timeline: Timeline): Int32Array {
  const found = new Int32Array(timeline.actions).fill(-1);
  for (let action = 0; action < timeline.actions; action++) {
    const open = [action];
    while (open.length > 0) {
      const index = open[open.length - 1];
      const needed = [timeline.before(index), timeline.input[index]].filter((each) => each >= 0);
      const missing = needed.filter((each) => found[each] < 0);
      if (missing.length > 0) {
        open.push(...missing);
        continue;
      }
      found[index] = 1 + Math.max(-1, ...needed.map((each) => found[each]));
      open.pop();
    }
  }
  return found;
}

function idle(events: string[], timeline: Timeline, process: number): void {
  for (let gap = 0; gap < timeline.gap.length; gap++) {
    if (timeline.gap[gap] === 0) continue;
    const isTail = gap >= timeline.actions;
    const rank = isTail ? gap - timeline.actions : timeline.rank(gap);
    let at = (isTail ? timeline.head.makespan_ns : timeline.start[gap]) - timeline.gap[gap];
    for (const cause of CAUSES) {
      const part = timeline.causes![cause][gap];
      if (part <= 0) continue;
      const where = `"pid":${process + rank},"tid":${IDLE},"ts":`;
      events.push(`{"ph":"B",${where}${us(timeline.lead + at)},"name":"${CAUSE_NAMES[cause]}","cat":"idle"}`);
      at += part;
      events.push(`{"ph":"E",${where}${us(timeline.lead + at)}}`);
    }
  }
}

function copies(events: string[], timeline: Timeline, process: number): void {
  timeline.copies.forEach(({ actions, start, end }, way) => {
    const inTime = [...actions.keys()].filter((place) => end[place] > start[place]).sort((one, other) => start[one] - start[other]);
    for (const place of inTime) {
      const action = actions[place];
      const where = `"pid":${process + timeline.rank(action)},"tid":${COPY_THREADS[way]},"ts":`;
      const about = JSON.stringify(aboutOf(timeline, action));
      events.push(`{"ph":"B",${where}${us(timeline.lead + start[place])},"name":"copy ${numbersOf(timeline, action)}","cat":"copy","args":${about}}`);
      events.push(`{"ph":"E",${where}${us(timeline.lead + end[place])}}`);
    }
  });
}

function encoders(events: string[], timeline: Timeline, process: number): void {
  timeline.encoders.forEach(({ rank, microbatch, start, end }, way) => {
    for (let place = 0; place < rank.length; place++) {
      const where = `"pid":${process + rank[place]},"tid":${ENCODER_THREAD},"ts":`;
      const about = JSON.stringify({ microbatch: microbatch[place] });
      events.push(`{"ph":"B",${where}${us(timeline.lead + start[place])},"name":"${ENCODER_NAMES[way]} ${microbatch[place]}","cat":"encoder","args":${about}}`);
      events.push(`{"ph":"E",${where}${us(timeline.lead + end[place])}}`);
    }
  });
}

function memory(events: string[], timeline: Timeline, process: number): void {
  const { course, head } = timeline;
  if (course === null) return;
  for (let rank = 0; rank < head.ranks; rank++) {
    const pid = process + rank;
    const count = (time: number, name: string, bytes: number): number =>
      events.push(`{"ph":"C","pid":${pid},"ts":${us(time)},"name":"${name}","args":{"bytes":${bytes}}}`);
    count(0, "memory", head.static_bytes?.[rank] ?? 0);
    for (let index = course.starts[rank]; index < course.starts[rank + 1]; index++) count(timeline.lead + course.times[index], "memory", course.held[index]);
    if (head.limit_bytes !== null) for (const time of [0, timeline.lead + head.makespan_ns]) count(time, "memory limit", head.limit_bytes);
  }
}

/** Nanoseconds as microseconds, exactly. */
function us(time: number): string {
  return `${Math.floor(time / 1000)}.${String(time % 1000).padStart(3, "0")}`;
}
