/** The data of a page: a head, and a timeline of typed arrays for each that it shows. `report/payload.py` writes them. */
import type { WhatIfModel } from "./stage_costs";
import type { Words } from "./words";

export interface IdleTime {
  total_ns: number;
  communication_ns: number;
  /** Of a prediction. */
  fill_drain_ns?: number;
  imbalance_ns?: number;
  recompute_ns?: number;
  /** Only where anything moves. */
  host_copies_ns?: number;
  /** Of a measured step. */
  waiting_ns?: number;
}

export interface PaletteSet {
  forward: string[];
  backward: string[];
  input: string[];
  weight: string[];
  recompute: string;
  limit: string;
  /** To the host, and back. */
  copies: [string, string];
  /** Forwards, and backwards. */
  encoders: [string, string];
  hidden: string;
  idle: { fill_drain: string; imbalance: string; recompute: string; communication: string; host_copies: string; waiting: string };
}

export interface TimelineHead {
  name: string;
  kind: "plan" | "measured";
  certificate: string;
  figures: [string, string][];
  notes: string[];
  schedule: string;
  ranks: number;
  chunks: number;
  microbatches: number;
  splits: number;
  stages: number;
  stage_rank: number[];
  stage_chunk: number[];
  ops: string[];
  stage_layers: string[];
  makespan_ns: number;
  /** The whole step, where that is more than its pipeline. */
  step_ns: number | null;
  work: { layers: number | null; microbatch_ns: number | null; tokens: number | null };
  limit_bytes: number | null;
  static_bytes: number[] | null;
  working_bytes: number[] | null;
  peak_bytes: number[] | null;
  idle: IdleTime[] | null;
  /** What every rank has of a longest path, and what less work on each microbatch there saves; empty where not known. */
  path: { path_ns: number; off_ns: number; saved_ns: number }[];
  busy_ns: number[];
  actions: number;
  /** Numbers of copies to the host, and back; null where nothing moves. */
  copies: [number, number] | null;
  /** Numbers of parts that encoders do beside the pipeline: forwards, and backwards where they are trained. */
  encoders: number[];
  rank_starts: number[];
  columns: Record<string, { offset: number; bytes: number }>;
  decision: { text: string }[];
  run: { title: string; what: string; note: string; text: string }[];
  plan: number | null;
  /** What simulating a changed plan takes, or why the page does not; absent where there is no plan that it could change. */
  what_if?: WhatIfModel | { why_not: string };
}

export interface Head {
  version: number;
  title: string;
  made_by: string;
  language: string;
  words: Words;
  unit: { bytes: number; name: string };
  rank_word: string;
  palette: { paper: PaletteSet; safe: PaletteSet };
  timelines: TimelineHead[];
}

/** Parts of a gap by cause, in the order in which they are drawn. */
export const CAUSES = ["fill", "imbalance", "recomputing", "waiting", "communication", "copying"] as const;
export type Cause = (typeof CAUSES)[number];

/** Names of the causes, in the words of the page. */
export const CAUSE_WORDS: Record<Cause, string> = {
  fill: "fill_drain", imbalance: "imbalance", recomputing: "recomputing", waiting: "waiting", communication: "communication", copying: "host_copies",
};

/** Names of both directions, in the words of the page. */
export const COPIES = ["to_host", "from_host"] as const;

/** Names of what encoders do, in the words of the page. */
export const ENCODERS = ["encoders_forward", "encoders_backward"] as const;

/** Forwards or backwards of encoders, rank by rank in the order of time, which is negative before the pipeline. */
export interface EncoderParts {
  rank: Float64Array;
  microbatch: Float64Array;
  start: Float64Array;
  end: Float64Array;
}

/** Copies to the host, or of all back, in the order of the actions that they are of. */
export interface Copies {
  actions: Float64Array;
  start: Float64Array;
  end: Float64Array;
}

/** The numbers of a timeline, action by action, rank by rank in the order of execution. */
export interface Columns {
  op: Uint8Array;
  stage: Uint16Array;
  unit: Uint32Array;
  start: Float64Array;
  end: Float64Array;
  recompute: Float64Array;
  /** Action whose result each one needs, -1 for none. */
  input: Int32Array;
  message: Float64Array;
  /** Idle time before each action, then behind the last one of each rank. */
  gap: Float64Array;
  /** Parts of the gaps by cause; null where they are not known. */
  causes: Record<Cause, Float64Array> | null;
  /** Bytes taken or freed; null where memory is not known. */
  memory: Float64Array | null;
  /** Bytes taken or freed at the ends of actions, where anything moves to the host; `memory` has those at the starts. */
  memoryAtEnd: Float64Array | null;
  /** What each forward saves that runs beside the backward behind it, -1 where it runs beside none; null without pairs. */
  saved: Float64Array | null;
  /** To the host, then back; none where nothing moves. */
  copies: readonly Copies[];
  /** Forwards, then backwards; none where there are no encoders beside the pipeline. */
  encoders: readonly EncoderParts[];
}

/** One timeline; an action is an index into its columns. */
export class Timeline {
  readonly op: Columns["op"];
  readonly stage: Columns["stage"];
  readonly unit: Columns["unit"];
  readonly start: Columns["start"];
  readonly end: Columns["end"];
  readonly recompute: Columns["recompute"];
  readonly input: Columns["input"];
  readonly message: Columns["message"];
  readonly gap: Columns["gap"];
  readonly causes: Columns["causes"];
  readonly memory: Columns["memory"];
  readonly memoryAtEnd: Columns["memoryAtEnd"];
  readonly saved: Columns["saved"];
  readonly copies: Columns["copies"];
  readonly encoders: Columns["encoders"];
  /** Time that encoders need before the pipeline begins. */
  readonly lead: number;
  readonly rankOf: Uint16Array;
  private consumersOf: Int32Array | null = null;
  private courseMade: Course | null = null;
  private pathMade: number[] | null = null;

  constructor(
    readonly head: TimelineHead,
    columns: Columns,
  ) {
    ({
      op: this.op, stage: this.stage, unit: this.unit, start: this.start, end: this.end, recompute: this.recompute, input: this.input, message: this.message,
      gap: this.gap, causes: this.causes, memory: this.memory, memoryAtEnd: this.memoryAtEnd, saved: this.saved, copies: this.copies, encoders: this.encoders,
    } = columns);
    this.rankOf = new Uint16Array(head.actions);
    for (let rank = 0; rank < head.ranks; rank++) this.rankOf.fill(rank, head.rank_starts[rank], head.rank_starts[rank + 1]);
    this.lead = -this.encoders.reduce((first, { start }) => start.reduce((least, begin) => Math.min(least, begin), first), 0);
  }

  /** Where in the parts of encoders those of a rank begin, and where they end. */
  ofRank(parts: EncoderParts, rank: number): [number, number] {
    return [firstAbove(parts.rank, rank - 1, 0, parts.rank.length), firstAbove(parts.rank, rank, 0, parts.rank.length)];
  }

  /** What encoders do on a rank at a time, as a direction and a place; null for nothing. */
  encoderAt(rank: number, time: number): [number, number] | null {
    for (const [way, parts] of this.encoders.entries()) {
      const [first, last] = this.ofRank(parts, rank);
      const place = firstAbove(parts.end, time, first, last);
      if (place < last && parts.start[place] <= time) return [way, place];
    }
    return null;
  }

  /** The place of the copy of an action among those of one direction; -1 for none. */
  copyOf(copies: Copies, action: number): number {
    const place = firstAbove(copies.actions, action - 1, 0, copies.actions.length);
    return copies.actions[place] === action ? place : -1;
  }

  get actions(): number {
    return this.head.actions;
  }

  rank(action: number): number {
    return this.rankOf[action];
  }

  chunk(action: number): number {
    return this.head.stage_chunk[this.stage[action]];
  }

  letter(action: number): string {
    return this.head.ops[this.op[action]];
  }

  microbatch(action: number): number {
    return Math.floor(this.unit[action] / this.head.splits);
  }

  /** Index into `gap` of the idle time behind the last action of a rank. */
  tail(rank: number): number {
    return this.actions + rank;
  }

  /** First action of a rank that ends after a time; the end of the rank's actions where none does. */
  firstEndingAfter(rank: number, time: number): number {
    return firstAbove(this.end, time, this.head.rank_starts[rank], this.head.rank_starts[rank + 1]);
  }

  /** The action that a rank runs at a time; -1 for none. */
  at(rank: number, time: number): number {
    const index = this.firstEndingAfter(rank, time);
    return index < this.head.rank_starts[rank + 1] && this.start[index] <= time ? index : -1;
  }

  /** What runs before an action on its rank; -1 for the first. */
  before(action: number): number {
    return action > this.head.rank_starts[this.rankOf[action]] ? action - 1 : -1;
  }

  /** What runs behind an action on its rank; -1 for the last. */
  behind(action: number): number {
    return action + 1 < this.head.rank_starts[this.rankOf[action] + 1] ? action + 1 : -1;
  }

  /** What an action runs beside; -1 for none. */
  beside(action: number): number {
    if (this.saved === null) return -1;
    if (this.saved[action] >= 0) return action + 1;
    const before = this.before(action);
    return before >= 0 && this.saved[before] >= 0 ? before : -1;
  }

  /** The action that decided when this one starts: the one before on the rank if that ended then, else its input. */
  decidedBy(action: number): number {
    const before = this.before(action);
    if (before >= 0 && this.end[before] === this.start[action]) return before;
    return this.input[action] >= 0 ? this.input[action] : before;
  }

  /** What ranks hold from which times on; null where memory is not known. */
  get course(): Course | null {
    if (this.memory !== null && this.courseMade === null) this.courseMade = courseOf(this, this.memory);
    return this.courseMade;
  }

  /** The first action that needs the result of this one, on another rank if there is one; -1 for none. */
  consumer(action: number): number {
    if (this.consumersOf === null) {
      this.consumersOf = new Int32Array(this.actions).fill(-1);
      for (let index = 0; index < this.actions; index++) {
        const input = this.input[index];
        if (input < 0) continue;
        const known = this.consumersOf[input];
        if (known < 0 || (this.rankOf[known] === this.rankOf[input] && this.rankOf[index] !== this.rankOf[input])) {
          this.consumersOf[input] = index;
        }
      }
    }
    return this.consumersOf[action];
  }

  /** The actions that decided, one after the other, when an action starts; the first of the step first. */
  chain(action: number): number[] {
    const found = [];
    for (let index = action; index >= 0; index = this.decidedBy(index)) found.push(index);
    return found.reverse();
  }

  /** A longest path through the step. */
  criticalPath(): number[] {
    if (this.pathMade !== null) return this.pathMade;
    let last = 0;
    for (let index = 1; index < this.actions; index++) if (this.end[index] > this.end[last]) last = index;
    return (this.pathMade = this.actions === 0 ? [] : this.chain(last));
  }
}

/** Memory over time: at `times[i]` a rank begins to hold `held[i]`; the events of rank r are from `starts[r]` on. */
export interface Course {
  times: Float64Array;
  held: Float64Array;
  starts: Int32Array;
}

/**
 * A forward takes memory at its start, all others free it at their end; without any backward a forward does both, and
 * where anything moves to the host every action may.
 */
function courseOf(timeline: Timeline, changes: Float64Array): Course {
  const { head } = timeline;
  const forward = head.ops.indexOf("F");
  const frees = timeline.op.every((op) => op === forward);
  const atEnd = timeline.memoryAtEnd ?? (frees ? changes.map((change) => -change) : null);
  const each = atEnd === null ? 1 : 2;
  const course: Course = {
    times: new Float64Array(each * head.actions),
    held: new Float64Array(each * head.actions),
    starts: Int32Array.from(head.rank_starts, (start) => each * start),
  };
  for (let rank = 0; rank < head.ranks; rank++) {
    let held = (head.static_bytes?.[rank] ?? 0) + (head.working_bytes?.[rank] ?? 0);
    for (let index = head.rank_starts[rank]; index < head.rank_starts[rank + 1]; index++) {
      const place = each * index;
      const isAtStart = atEnd !== null || timeline.op[index] === forward;
      course.times[place] = isAtStart ? timeline.start[index] : timeline.end[index];
      course.held[place] = held += changes[index];
      if (atEnd !== null) [course.times[place + 1], course.held[place + 1]] = [timeline.end[index], (held += atEnd[index])];
    }
  }
  return course;
}

export interface Report {
  head: Head;
  timelines: Timeline[];
}

/** The first place from `low` on, below `high`, with a value above `limit`, where values do not fall; else `high`. */
export function firstAbove(values: Float64Array, limit: number, low: number, high: number): number {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}
