/** Runs a plan on paper: when every action runs and what every rank holds at most; the rules of `simulate/timeline.py` and `memory.py`. */
import type { StageCosts } from "./stage_costs";

/** Codes of actions, as `schedule/action.py` has them. */
export const FORWARD = 0;
export const BACKWARD = 1;
export const INPUT_GRADIENT = 2;
export const WEIGHT_GRADIENT = 3;

/** The order of work: actions rank by rank, each rank's own in its order. */
export interface Actions {
  op: Uint8Array;
  stage: Uint16Array;
  /** Microbatch (part). */
  unit: Uint32Array;
  rankStarts: readonly number[];
}

/** What waits for what, in an order in which one pass tells when all actions run. */
export class Order {
  readonly rankOf: Uint16Array;
  readonly isForwardOnly: boolean;
  /** Actions so that each stands behind all that it waits for. */
  private readonly sequence: Int32Array;
  /** Action whose result each one needs; -1 for none. */
  readonly input: Int32Array;
  /** Whether that is on another rank. */
  private readonly crosses: Uint8Array;

  /** Throws where the order can never finish. */
  constructor(readonly actions: Actions, readonly stageRank: readonly number[]) {
    const { op, stage, unit, rankStarts } = actions;
    const [count, ranks, stages] = [op.length, rankStarts.length - 1, stageRank.length];
    const units = unit.reduce((most, each) => Math.max(most, each + 1), 0);
    this.isForwardOnly = op.every((each) => each === FORWARD);
    this.rankOf = new Uint16Array(count);
    for (let rank = 0; rank < ranks; rank++) this.rankOf.fill(rank, rankStarts[rank], rankStarts[rank + 1]);
    this.input = new Int32Array(count).fill(-1);
    this.crosses = new Uint8Array(count);
    this.sequence = new Int32Array(count);
    // Of every stage and unit, the forward, then what makes the input gradient; -1 until it is placed.
    const done = [new Int32Array(stages * units).fill(-1), new Int32Array(stages * units).fill(-1)];
    const heads = rankStarts.slice(0, ranks);
    let placed = 0;
    for (let before = -1; before < placed; ) {
      before = placed;
      for (let rank = 0; rank < ranks; rank++) {
        while (heads[rank] < rankStarts[rank + 1]) {
          const index = heads[rank];
          const [own, at] = [op[index], stage[index]];
          const needsGradient = own !== FORWARD && at < stages - 1;
          const source = own === WEIGHT_GRADIENT ? -1 : own === FORWARD ? at - 1 : needsGradient ? at + 1 : at;
          if (source >= 0) {
            const needed = done[needsGradient ? 1 : 0][source * units + unit[index]];
            if (needed < 0) break;
            this.input[index] = needed;
            this.crosses[index] = stageRank[source] === rank ? 0 : 1;
          }
          if (own !== WEIGHT_GRADIENT) done[own === FORWARD ? 0 : 1][at * units + unit[index]] = index;
          this.sequence[placed++] = index;
          heads[rank]++;
        }
      }
    }
    if (placed < count) throw new Error("ranks wait for each other");
  }

  /** When every action runs. */
  run(costs: StageCosts): Run {
    const { op, stage, rankStarts } = this.actions;
    const count = op.length;
    const [start, end, message] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
    const durations = durationsOf(costs, this.isForwardOnly);
    let makespan = 0;
    for (let place = 0; place < count; place++) {
      const index = this.sequence[place];
      const input = this.input[index];
      if (this.crosses[index] === 1) message[index] = costs.message[op[index] === FORWARD ? stage[index] - 1 : stage[index]];
      const ready = input < 0 ? 0 : end[input] + message[index];
      const free = index === rankStarts[this.rankOf[index]] ? 0 : end[index - 1];
      start[index] = ready > free ? ready : free;
      end[index] = start[index] + durations[op[index]][stage[index]];
      if (end[index] > makespan) makespan = end[index];
    }
    return { start, end, message, makespan };
  }

  /** Bytes that every action takes (a forward at its start) or frees (at its end). */
  changes(costs: StageCosts): Float64Array {
    const { op, stage } = this.actions;
    const { activation: taken, untilWeight: waiting } = costs;
    const changes = new Float64Array(op.length);
    for (let index = 0; index < op.length; index++) {
      const [own, at] = [op[index], stage[index]];
      changes[index] = own === FORWARD ? taken[at] : own === BACKWARD ? -taken[at] : own === INPUT_GRADIENT ? waiting[at] - taken[at] : -waiting[at];
    }
    return changes;
  }

  /** Time of the recomputation at the beginning of every action. */
  recompute(costs: StageCosts): Float64Array {
    const { op, stage } = this.actions;
    const times = new Float64Array(op.length);
    for (let index = 0; index < op.length; index++) {
      if (op[index] === BACKWARD || op[index] === INPUT_GRADIENT) times[index] = costs.recompute[stage[index]];
    }
    return times;
  }

  /** The highest memory of every rank, by the changes of its actions. */
  peaks(costs: StageCosts, changes: Float64Array): number[] {
    const { rankStarts } = this.actions;
    const frees = this.isForwardOnly;
    return Array.from(costs.fixed, (fixed, rank) => {
      let [held, most] = [0, 0];
      for (let index = rankStarts[rank]; index < rankStarts[rank + 1]; index++) {
        held += changes[index];
        if (held > most) most = held;
        if (frees) held -= changes[index];
      }
      return fixed + costs.working[rank] + most;
    });
  }
}

export interface Run {
  start: Float64Array;
  end: Float64Array;
  /** Time that what each action needs travels. */
  message: Float64Array;
  makespan: number;
}

/** Durations of the stages by operation. */
function durationsOf(costs: StageCosts, isForwardOnly: boolean): Float64Array[] {
  const { forward, backward, weight } = costs;
  return isForwardOnly ? [forward] : [forward, backward, backward.map((all, stage) => all - weight[stage]), weight];
}
