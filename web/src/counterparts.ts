/** The same action in another timeline. */
import type { Timeline } from "./data";

/** For every action of one timeline that of another, by operation, microbatch and stage, or rank and chunk; -1 for none. */
export function counterparts(one: Timeline, other: Timeline): Int32Array {
  const hasStages = one.head.stages === other.head.stages;
  const stride = Math.max(one.head.stages, other.head.stages, one.head.ranks * 64, other.head.ranks * 64);
  const key = (timeline: Timeline, action: number): number => {
    const place = hasStages ? timeline.stage[action] : 64 * timeline.rank(action) + timeline.chunk(action);
    return (timeline.unit[action] * stride + place) * 4 + timeline.op[action];
  };
  const known = new Map<number, number>();
  for (let action = 0; action < other.actions; action++) known.set(key(other, action), action);
  return Int32Array.from({ length: one.actions }, (_each, action) => known.get(key(one, action)) ?? -1);
}
