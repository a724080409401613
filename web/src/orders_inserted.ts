/** The order of 1F1B-V: a pattern on a V whose actions go into the first gap that takes them (`schedule/one_f_one_b_v.py`, `insertion.py`). */
import type { Planned } from "./orders_zb";
import { BACKWARD, FORWARD } from "./simulation";

const PERIOD = 6;
/** Units that a forward and a whole backward take. */
const [FORWARD_UNITS, BACKWARD_UNITS] = [1, 2];

interface Placed {
  action: Planned;
  start: number;
  end: number;
  /** Chunk activations that the rank holds behind it. */
  held: number;
}

export function oneFOneBV(ranks: number, microbatches: number): Planned[][] {
  const stages = 2 * ranks;
  const room = 2 * (Math.floor((2 * ranks) / 3) + 1);
  const orders: Placed[][] = Array.from({ length: ranks }, () => []);
  /** Ends of forwards and of backwards, by stage and microbatch. */
  const ends = [FORWARD, BACKWARD].map(() => Array.from({ length: stages }, () => new Float64Array(microbatches)));
  /** Ends of the last forward and backward of each stage. */
  const lasts = [new Float64Array(stages), new Float64Array(stages)];
  for (const [op, stage, unit] of pattern(ranks, microbatches)) {
    const order = orders[stage < ranks ? stage : stages - 1 - stage];
    const kind = op === FORWARD ? 0 : 1;
    const length = op === FORWARD ? FORWARD_UNITS : BACKWARD_UNITS;
    const change = op === FORWARD ? 1 : -1;
    const needed = op === FORWARD ? (stage > 0 ? ends[0][stage - 1][unit] : 0) : Math.max(ends[0][stage][unit], stage + 1 < stages ? ends[1][stage + 1][unit] : 0);
    const ready = Math.max(lasts[kind][stage], needed);
    let target = order.length;
    let start = Math.max(ready, order.at(-1)?.end ?? 0);
    for (let later = order.length - 1; later >= 0; later--) {
      if (order[later].held + change > room || order[later].start <= ready) break;
      const before = later > 0 ? order[later - 1] : null;
      const begin = Math.max(ready, before?.end ?? 0);
      if (begin + length <= order[later].start && (before === null || before.held + change <= room)) [target, start] = [later, begin];
    }
    for (let later = target; later < order.length; later++) order[later].held += change;
    order.splice(target, 0, { action: [op, stage, unit], start, end: start + length, held: (target > 0 ? order[target - 1].held : 0) + change });
    ends[kind][stage][unit] = lasts[kind][stage] = start + length;
  }
  return orders.map((order) => order.map(({ action }) => action));
}

/** All actions in the order of the pattern: forwards follow each other at once, backwards too but for every third. */
function pattern(ranks: number, microbatches: number): Planned[] {
  const last = 2 * ranks - 1;
  const turn = 2 * ranks + (ranks % 3 === 0 ? 3 : 0);
  const shift = (((1 - ranks) % 3) + 3) % 3;
  const rows: [unit: number, tie: number, action: Planned][] = [];
  for (let stage = 0; stage <= last; stage++) {
    const gradient = turn + 2 * (last - stage) + 3 * Math.floor((last - stage + shift) / 3);
    for (let unit = 0; unit < microbatches; unit++) {
      rows.push([stage + PERIOD * unit, stage, [FORWARD, stage, unit]], [gradient + PERIOD * unit, -stage, [BACKWARD, stage, unit]]);
    }
  }
  const [op, at] = [0, 1];
  return rows.sort((one, other) => one[0] - other[0] || one[1] - other[1] || one[2][op] - other[2][op] || one[2][at] - other[2][at]).map(([, , action]) => action);
}
