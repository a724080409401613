/** Sums over a part of the step, rank by rank, and what a rank holds at a time. */
import { CAUSES, type Cause, firstAbove, type Timeline } from "./data";
import type { Span } from "./scale";

export interface RankSums {
  busy: number;
  idle: number;
  /** Null where causes are not known. */
  causes: Record<Cause, number> | null;
  /** Time in which what the rank needs travels, whether it waits for it or works meanwhile. */
  messages: number;
}

/** Time of every rank within a range, ns. Of a gap that is cut, each cause has its part of what is inside. */
export function sumsOf(timeline: Timeline, range: Span): RankSums[] {
  const { head, start, end, gap, causes, input, message } = timeline;
  return Array.from({ length: head.ranks }, (_each, rank) => {
    const [first, last] = [head.rank_starts[rank], head.rank_starts[rank + 1]];
    const sums: RankSums = { busy: 0, idle: 0, causes: causes === null ? null : { fill: 0, imbalance: 0, recomputing: 0, waiting: 0, communication: 0, copying: 0 }, messages: 0 };
    for (let index = first; index <= last; index++) {
      const place = index === last ? timeline.tail(rank) : index;
      const gapEnd = index === last ? head.makespan_ns : start[index];
      const inside = overlap(gapEnd - gap[place], gapEnd, range);
      sums.idle += inside;
      if (inside > 0 && causes !== null) for (const cause of CAUSES) sums.causes![cause] += causes[cause][place] * (inside / gap[place]);
      if (index === last) break;
      sums.busy += overlap(start[index], end[index], range);
      if (input[index] >= 0 && message[index] > 0) sums.messages += overlap(end[input[index]], end[input[index]] + message[index], range);
    }
    return sums;
  });
}

/** All ranks together. */
export function totalOf(ranks: readonly RankSums[]): RankSums {
  const sum = (value: (one: RankSums) => number): number => ranks.reduce((all, one) => all + value(one), 0);
  const causes = ranks[0].causes === null ? null : (Object.fromEntries(CAUSES.map((cause) => [cause, sum((one) => one.causes![cause])])) as Record<Cause, number>);
  return { busy: sum((one) => one.busy), idle: sum((one) => one.idle), causes, messages: sum((one) => one.messages) };
}

function overlap(from: number, to: number, range: Span): number {
  return Math.max(0, Math.min(to, range.to) - Math.max(from, range.from));
}

export interface Held {
  bytes: number;
  /** Weights, gradients, optimizer state and constant memory. */
  fixed: number;
}

/** What a rank holds at a time; null where memory is not known. */
export function heldAt(timeline: Timeline, rank: number, time: number): Held | null {
  const { course, head } = timeline;
  if (course === null) return null;
  const fixed = head.static_bytes?.[rank] ?? 0;
  const place = firstAbove(course.times, time, course.starts[rank], course.starts[rank + 1]) - 1;
  return { bytes: place < course.starts[rank] ? fixed : course.held[place], fixed };
}

/** A gap between the actions of a rank, as a place in `gap`, and the action behind it; -1 for the end of the step. */
export function gapAt(timeline: Timeline, rank: number, time: number): { place: number; behind: number; from: number; to: number } {
  const next = timeline.firstEndingAfter(rank, time);
  const isLast = next >= timeline.head.rank_starts[rank + 1];
  const place = isLast ? timeline.tail(rank) : next;
  const to = isLast ? timeline.head.makespan_ns : timeline.start[next];
  return { place, behind: isLast ? -1 : next, from: to - timeline.gap[place], to };
}
