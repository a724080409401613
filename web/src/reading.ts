/** Reads the data of a page: its head, and the columns of every timeline. `report/columns.py` says what they are. */
import { type Cause, type Columns, COPIES, type Copies, ENCODERS, type EncoderParts, type Head, type Report, Timeline, type TimelineHead } from "./data";

type Read = (name: string, count: number) => Float64Array | null;

/** Read the data out of the page. */
export async function readReport(page: Document): Promise<Report> {
  const head = JSON.parse(textOf(page, "evenflow-head")) as Head;
  const packed = Uint8Array.from(atob(textOf(page, "evenflow-data")), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return { head, timelines: head.timelines.map((each) => new Timeline(each, columnsOf(each, bytes))) };
}

/** The text of an element of the page. */
export function textOf(page: Document, id: string): string {
  return page.getElementById(id)?.textContent ?? "";
}

function columnsOf(head: TimelineHead, bytes: Uint8Array): Columns {
  const { actions, ranks, rank_starts: starts } = head;
  const read: Read = (name, count) => {
    const place = head.columns[name];
    return place === undefined ? null : varints(bytes, place.offset, place.bytes, count);
  };
  const needed = (name: string, count = actions): Float64Array => read(name, count) ?? new Float64Array(count);
  const gap = needed("gap_ns", actions + ranks);
  const duration = needed("duration_ns");
  const [start, end] = [new Float64Array(actions), new Float64Array(actions)];
  for (let rank = 0; rank < ranks; rank++) {
    let now = 0;
    for (let index = starts[rank]; index < starts[rank + 1]; index++) {
      now += gap[index];
      start[index] = now;
      now += duration[index];
      end[index] = now;
    }
  }
  return {
    op: Uint8Array.from(needed("op")),
    stage: Uint16Array.from(needed("stage")),
    unit: Uint32Array.from(needed("unit")),
    start,
    end,
    recompute: needed("recompute_ns"),
    input: Int32Array.from(needed("input"), (coded, index) => (coded === 0 ? -1 : index - unzigzag(coded - 1))),
    message: needed("message_ns"),
    gap,
    causes: causesOf(gap, read),
    memory: read("memory", actions)?.map(unzigzag) ?? null,
    memoryAtEnd: read("memory_at_end", actions)?.map(unzigzag) ?? null,
    saved: read("pair", actions)?.map((coded) => coded - 1) ?? null,
    copies: copiesOf(head, start, end, read),
    encoders: encodersOf(head, read),
  };
}

function causesOf(gap: Float64Array, read: Read): Record<Cause, Float64Array> | null {
  const count = gap.length;
  const waiting = read("waiting", count);
  const nothing = new Float64Array(count);
  if (waiting) return { fill: nothing, imbalance: nothing, recomputing: nothing, waiting, communication: gap.map((all, index) => all - waiting[index]), copying: nothing };
  const [fill, imbalance, recomputing] = ["fill", "imbalance", "recomputing"].map((name) => read(name, count));
  if (!fill || !imbalance || !recomputing) return null;
  const copying = read("host_copies", count) ?? nothing;
  const communication = gap.map((all, index) => all - fill[index] - imbalance[index] - recomputing[index] - copying[index]);
  return { fill, imbalance, recomputing, waiting: nothing, communication, copying };
}

function copiesOf(head: TimelineHead, starts: Float64Array, ends: Float64Array, read: Read): Copies[] {
  if (!head.copies) return [];
  return head.copies.map((count, way) => {
    const name = COPIES[way];
    const actions = read(`${name}_of`, count) ?? new Float64Array(count);
    for (let index = 1; index < count; index++) actions[index] += actions[index - 1];
    const apart = read(way === 0 ? "to_host_behind_ns" : "from_host_ahead_ns", count) ?? new Float64Array(count);
    const takes = read(`${name}_ns`, count) ?? new Float64Array(count);
    const start = actions.map((action, index) => (way === 0 ? ends[action] + apart[index] : starts[action] - apart[index] - takes[index]));
    return { actions, start, end: start.map((begin, index) => begin + takes[index]) };
  });
}

function encodersOf(head: TimelineHead, read: Read): EncoderParts[] {
  return head.encoders.map((count, way) => {
    const column = (name: string): Float64Array => read(`${ENCODERS[way]}_${name}`, count) ?? new Float64Array(count);
    const takes = column("ns");
    const start = column("start_ns").map(unzigzag);
    return { rank: column("rank"), microbatch: column("unit"), start, end: start.map((begin, index) => begin + takes[index]) };
  });
}

/** Read integers of variable length (LEB128). */
export function varints(bytes: Uint8Array, offset: number, length: number, count: number): Float64Array {
  const values = new Float64Array(count);
  let place = offset;
  const end = offset + length;
  for (let index = 0; index < count && place < end; index++) {
    let value = 0;
    let factor = 1;
    let byte = bytes[place++];
    while (byte & 0x80) {
      value += (byte & 0x7f) * factor;
      factor *= 128;
      byte = bytes[place++];
    }
    values[index] = value + byte * factor;
  }
  return values;
}

/** 0, -1, 1, -2, 2 … for 0, 1, 2, 3, 4 …, beyond 32 bits too. */
export function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}
