/** Orders on a V that repeat a block and squeeze it, as `schedule/building_block.py` does, unit by unit. */
import type { Planned } from "./orders_zb";
import { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT } from "./simulation";

/** Units from one microbatch to the next. */
const PERIOD = 6;
/** Operation and chunk of the four steps of a block. */
const STEPS = [[FORWARD, 0], [FORWARD, 1], [INPUT_GRADIENT, 1], [INPUT_GRADIENT, 0]] as const;

type Row = readonly [number, number, number, number];

/** The blocks, and how many chunk activations a rank may hold. */
const BLOCKS: Record<string, (ranks: number) => { live: number; row: (rank: number) => Row }> = {
  zbv: (p) => ({ live: 2 * p, row: (r) => [4 * r, 6 * p - 2 * r - 3, 6 * p + 4 * r - 2, 12 * p - 2 * r - 5] }),
  "v-half": (p) => {
    const turn = p % 2 === 0 ? 3 : 0;
    return { live: 2 * (Math.floor(p / 2) + 1), row: (r) => [2 * r, 3 * p - r - 2, 3 * p + turn + 2 * r - 1, 6 * p + turn - r - 2] };
  },
  "v-min": (p) => {
    const turn = p % 3 === 0 ? 2 : 0;
    return { live: 2 * Math.floor((p + 4) / 3), row: (r) => [r, 2 * p - r - 1, 2 * p + turn + r, 4 * p + turn - r - 1] };
  },
};

export function hasBlock(family: string): boolean {
  return Object.hasOwn(BLOCKS, family);
}

/** Of the three ways to take actions early, the order that is shortest for equal times. */
export function squeezed(family: string, ranks: number, microbatches: number): Planned[][] {
  const { live, row } = BLOCKS[family](ranks);
  const block = Array.from({ length: ranks }, (_each, rank) => row(rank));
  let best: Squeeze | null = null;
  for (const [warmup, cooldown] of [[true, false], [true, true], [false, false]]) {
    const squeeze = new Squeeze(block, microbatches, live, warmup, cooldown);
    if (best === null || squeeze.units < best.units) best = squeeze;
  }
  return best!.orders;
}

class Squeeze {
  readonly orders: Planned[][];
  /** Units that the orders take. */
  readonly units: number;
  private readonly counts: number[][];
  private readonly ended: number[][];
  private readonly waiting: [stage: number, unit: number][][];
  /** Weight gradients that every rank has run. */
  private readonly weights: number[];

  constructor(
    private readonly block: readonly Row[],
    private readonly microbatches: number,
    private readonly live: number,
    private readonly warmup: boolean,
    private readonly cooldown: boolean,
  ) {
    this.orders = block.map(() => []);
    this.counts = block.map(() => [0, 0, 0, 0]);
    this.ended = block.map(() => [0, 0, 0, 0]);
    this.waiting = block.map(() => []);
    this.weights = block.map(() => 0);
    let left = PERIOD * microbatches * block.length;
    let units = 0;
    while (left > 0) {
      const acted = block.flatMap((_row, rank) => (this.runOne(rank) ? [rank] : []));
      for (const rank of acted) this.ended[rank] = [...this.counts[rank]];
      left -= acted.length;
      units++;
    }
    this.units = units;
  }

  private runOne(rank: number): boolean {
    const counts = this.counts[rank];
    const step = this.nextStep(rank);
    if (step < 0 || (step < 2 && counts[0] + counts[1] - this.weights[rank] >= this.live)) {
      const oldest = this.waiting[rank][this.weights[rank]];
      if (oldest === undefined) return false;
      this.orders[rank].push([WEIGHT_GRADIENT, ...oldest]);
      this.weights[rank]++;
      return true;
    }
    const [op, chunk] = STEPS[step];
    const stage = chunk === 1 ? 2 * this.block.length - 1 - rank : rank;
    this.orders[rank].push([op, stage, counts[step]]);
    if (op === INPUT_GRADIENT) this.waiting[rank].push([stage, counts[step]]);
    counts[step]++;
    return true;
  }

  /** The first step in the order of the block whose input is there, and memory for it; -1 if none is. */
  private nextStep(rank: number): number {
    const counts = this.counts[rank];
    const starts = this.starts(rank);
    const left = [0, 1, 2, 3].filter((step) => counts[step] < this.microbatches).sort((one, other) => starts[one] - starts[other] || one - other);
    const takesEarly = (this.warmup && counts[3] === 0) || (this.cooldown && counts[0] === this.microbatches);
    if (!takesEarly) return left.length > 0 && this.isReady(rank, left[0]) ? left[0] : -1;
    const step = left.find((each, place) => this.isReady(rank, each) && (place === 0 || each >= 2 || this.peakBefore(rank, each) < this.live));
    return step ?? -1;
  }

  /** Units of the next microbatch of every step in the block. */
  private starts(rank: number): number[] {
    return this.block[rank].map((start, step) => start + PERIOD * this.counts[rank][step]);
  }

  private isReady(rank: number, step: number): boolean {
    const goesDown = step === 0 || step === 2;
    const number = this.counts[rank][step];
    if (goesDown && rank > 0) return this.ended[rank - 1][step] > number;
    if (!goesDown && rank < this.block.length - 1) return this.ended[rank + 1][step] > number;
    return step === 0 || this.ended[rank][step - 1] > number;
  }

  /** The most activations live while the rank runs all that stands before a step. */
  private peakBefore(rank: number, later: number): number {
    const starts = this.starts(rank);
    const events: [unit: number, change: number][] = [];
    for (let step = 0; step < 4; step++) {
      const end = Math.min(starts[later], this.block[rank][step] + PERIOD * this.microbatches);
      for (let unit = starts[step]; unit < end; unit += PERIOD) events.push([unit, step < 2 ? 1 : -1]);
    }
    const counts = this.counts[rank];
    let live = counts[0] + counts[1] - counts[2] - counts[3];
    let peak = live;
    for (const [, change] of events.sort((one, other) => one[0] - other[0] || one[1] - other[1])) peak = Math.max(peak, (live += change));
    return peak;
  }
}
