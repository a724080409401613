/** Orders with split backwards in turns (`schedule/zb_turns.py`), and the one of DualPipe-V (`schedule/dualpipe_v.py`). */
import { BACKWARD, FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT } from "./simulation";

/** An action of a rank: operation, stage, unit. */
export type Planned = [op: number, stage: number, unit: number];

/** ZB-H1 with one forward more for each rank behind, ZB-H2 with two. */
export function zbTurns(ahead: number, ranks: number, microbatches: number, splits: number): Planned[][] {
  const units = [...Array(microbatches * splits).keys()];
  const gradients = units.map((unit) => unit - (unit % splits) + splits - 1 - (unit % splits));
  return Array.from({ length: ranks }, (_each, rank) => {
    const warmup = ahead * (ranks - rank - 1) + splits - 1;
    const turns = units.flatMap((place): [turn: number, op: number, unit: number][] => [
      [place - warmup, FORWARD, place],
      [place, INPUT_GRADIENT, gradients[place]],
      [place + ahead * rank, WEIGHT_GRADIENT, gradients[place]],
    ]);
    // Of one rank, no two actions of one operation have the same turn.
    return turns.sort((one, other) => one[0] - other[0] || one[1] - other[1]).map(([, op, unit]): Planned => [op, rank, unit]);
  });
}

type Step = [op: number, chunk: number];

/** DualPipe-V, for as many microbatches as there are: with fewer than two for each rank, those that do not exist are left out. */
export function dualpipeV(ranks: number, microbatches: number): Planned[][] {
  const full = Math.max(microbatches, 2 * ranks);
  return Array.from({ length: ranks }, (_each, rank) => {
    const stages = [rank, 2 * ranks - 1 - rank];
    const forwards = [0, 0];
    const backwards = [0, 0];
    const waiting: [stage: number, unit: number][] = [];
    let oldest = 0;
    const order: Planned[] = [];
    for (const [op, chunk] of dualpipeSteps(rank, ranks, full)) {
      let [stage, unit] = [stages[chunk], 0];
      if (op === WEIGHT_GRADIENT) [stage, unit] = waiting[oldest++];
      else {
        const counts = op === FORWARD ? forwards : backwards;
        unit = counts[chunk]++;
        if (op === INPUT_GRADIENT) waiting.push([stage, unit]);
      }
      if (unit < microbatches) order.push([op, stage, unit]);
    }
    return order;
  });
}

function dualpipeSteps(rank: number, ranks: number, microbatches: number): Step[] {
  const after = ranks - rank - 1;
  const [down, up]: Step[] = [[FORWARD, 0], [FORWARD, 1]];
  const times = (count: number, ...steps: Step[]): Step[] => Array.from({ length: count }, () => steps).flat();
  return [
    ...times(2 * after, down),
    ...times(rank + 1, down, up),
    ...times(after, [INPUT_GRADIENT, 1], [WEIGHT_GRADIENT, 1], up),
    ...times(microbatches - 2 * ranks + rank + 1, down, [BACKWARD, 1], up, [BACKWARD, 0]),
    ...times(after, [BACKWARD, 1], up, [BACKWARD, 0]),
    ...Array.from({ length: 2 * (rank + 1) }, (_each, place): Step => [place <= rank ? BACKWARD : INPUT_GRADIENT, 1 - (place % 2)]),
    ...times(after, [WEIGHT_GRADIENT, 0], [INPUT_GRADIENT, 0]),
    ...times(rank + 1, [WEIGHT_GRADIENT, 0]),
  ];
}
