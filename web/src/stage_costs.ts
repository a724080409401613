/**
 * Times and memory of the stages of a plan, from its layers by recompute kind: the rules of `simulate/costs.py`.
 * `report/what_if.py` writes the model. All numbers are whole nanoseconds or bytes, which are exact up to 2^53.
 */

/** A list has an entry for each run of equal layers, a list of lists one such list for each kind. */
export interface WhatIfModel {
  /** In the order of a cell, none last. */
  kinds: string[];
  /** Layers of every stage under each kind. */
  counts: number[][];
  layers: {
    name: string[];
    count: number[];
    /** Whether a stage may begin with such a layer. */
    begins: boolean[];
    /** Rules for the stage that holds one. */
    rules: string[][];
    parameter_bytes: number[];
    until_weight_bytes: number[];
    activation_bytes: number[][];
    working_bytes: number[][];
    /** Time of what a stage sends on that ends with such a layer. */
    message_ns: number[];
  };
  head: EndBlock;
  tail: EndBlock;
  /** One for each speed that ranks have; head and tail as forward, backward and weight gradient. */
  times: { forward_ns: number[]; weight_ns: number[]; backward_ns: number[][]; head: number[]; tail: number[] }[];
  /** Kinds that compute layers again in segments of a length (0: all of a cell), with what layers keep and need under full. */
  segments: { kind: number; length: number; activation_bytes: number[]; working_bytes: number[] }[];
  /** Index of the times of each rank. */
  speed: number[];
  /** Bytes of each rank, whatever its layers. */
  constant_bytes: number[];
  /** What messages behind each stage take longer on their link. */
  link_ns: number[];
  /** The family whose order it is; null for an order of the plan's own. */
  family: string | null;
  group_size: number | null;
}

export interface EndBlock {
  name: string;
  parameter_bytes: number;
  until_weight_bytes: number;
  activation_bytes: number;
  working_bytes: number;
  message_ns: number;
}

/** Of every stage, per microbatch (part); of every rank for the last two. */
export interface StageCosts {
  forward: Float64Array;
  /** With recomputation and weight gradients. */
  backward: Float64Array;
  weight: Float64Array;
  /** The part of the backward that recomputes. */
  recompute: Float64Array;
  /** Time of what it sends on, and of what comes back for that. */
  message: Float64Array;
  activation: Float64Array;
  /** Bytes held between input and weight gradient. */
  untilWeight: Float64Array;
  fixed: Float64Array;
  /** Bytes that an action needs for itself at most. */
  working: Float64Array;
}

/** Sums over the layers before each one, and over all. */
type Sums = Float64Array;

interface SpeedSums {
  forward: Sums;
  weight: Sums;
  backward: Sums[];
  head: number[];
  tail: number[];
}

/** The model with its layers one by one. */
export class Layers {
  readonly number: number;
  /** The run of every layer. */
  readonly run: Uint32Array;
  private readonly parameters: Sums;
  private readonly untilWeight: Sums;
  private readonly activation: Sums[];
  private readonly speeds: SpeedSums[];

  constructor(readonly model: WhatIfModel) {
    const { layers, times } = model;
    this.run = Uint32Array.from(layers.count.flatMap((count, run) => Array<number>(count).fill(run)));
    this.number = this.run.length;
    const sums = (values: readonly number[]): Sums => this.sums(values);
    this.parameters = sums(layers.parameter_bytes);
    this.untilWeight = sums(layers.until_weight_bytes);
    this.activation = layers.activation_bytes.map(sums);
    this.speeds = times.map((each) => ({
      forward: sums(each.forward_ns), weight: sums(each.weight_ns), backward: each.backward_ns.map(sums), head: each.head, tail: each.tail,
    }));
  }

  private sums(values: readonly number[]): Sums {
    const sums = new Float64Array(this.number + 1);
    for (let layer = 0; layer < this.number; layer++) sums[layer + 1] = sums[layer] + values[this.run[layer]];
    return sums;
  }

  /** Costs of stages with so many layers under each kind, stage by stage; `stageRank` says where each one is. */
  costs(counts: readonly (readonly number[])[], stageRank: readonly number[]): StageCosts {
    const { model } = this;
    const stages = counts.length;
    const made = (): Float64Array => new Float64Array(stages);
    const costs: StageCosts = {
      forward: made(), backward: made(), weight: made(), recompute: made(), message: made(), activation: made(), untilWeight: made(),
      fixed: Float64Array.from(model.constant_bytes), working: new Float64Array(model.constant_bytes.length),
    };
    const plain = model.kinds.length - 1;
    let end = 0;
    for (let stage = 0; stage < stages; stage++) {
      const rank = stageRank[stage];
      const speed = this.speeds[model.speed[rank]];
      const first = end;
      let working = 0;
      for (let kind = 0; kind <= plain; kind++) {
        const begin = end;
        end += counts[stage][kind];
        costs.backward[stage] += speed.backward[kind][end] - speed.backward[kind][begin];
        const [kept, needed] = this.memory(kind, begin, end);
        costs.activation[stage] += kept;
        working = Math.max(working, needed);
      }
      costs.recompute[stage] = costs.backward[stage] - (speed.backward[plain][end] - speed.backward[plain][first]);
      costs.forward[stage] = speed.forward[end] - speed.forward[first];
      costs.weight[stage] = speed.weight[end] - speed.weight[first];
      costs.untilWeight[stage] = this.untilWeight[end] - this.untilWeight[first];
      costs.fixed[rank] += this.parameters[end] - this.parameters[first];
      costs.message[stage] = (end === 0 ? model.head.message_ns : model.layers.message_ns[this.run[end - 1]]) + model.link_ns[stage];
      const ends: [EndBlock, number[]][] = [];
      if (stage === 0) ends.push([model.head, speed.head]);
      if (stage === stages - 1) ends.push([model.tail, speed.tail]);
      for (const [block, [forward, backward, weight]] of ends) {
        costs.forward[stage] += forward;
        costs.backward[stage] += backward;
        costs.weight[stage] += weight;
        costs.activation[stage] += block.activation_bytes;
        costs.untilWeight[stage] += block.until_weight_bytes;
        costs.fixed[rank] += block.parameter_bytes;
        working = Math.max(working, block.working_bytes);
      }
      costs.working[rank] = Math.max(costs.working[rank], working);
    }
    return costs;
  }

  /** What the layers [begin, end) keep under a kind, and what their actions need for themselves at most. */
  private memory(kind: number, begin: number, end: number): [number, number] {
    if (begin === end) return [0, 0];
    const segments = this.model.segments.find((each) => each.kind === kind);
    if (segments !== undefined) return this.inSegments(segments, begin, end);
    const { working_bytes: working } = this.model.layers;
    let most = 0;
    for (let run = this.run[begin]; run <= this.run[end - 1]; run++) most = Math.max(most, working[kind][run]);
    return [this.activation[kind][end] - this.activation[kind][begin], most];
  }

  /** The same where only the first layer of each segment keeps anything, and those in front of one that goes backward hold all. */
  private inSegments({ length, activation_bytes: full, working_bytes: working }: WhatIfModel["segments"][number], begin: number, end: number): [number, number] {
    const plain = this.activation[this.model.kinds.length - 1];
    let [kept, most] = [0, 0];
    for (let first = begin; first < end; first += length === 0 ? end - begin : length) {
      const own = full[this.run[first]];
      kept += own;
      for (let layer = first; layer < Math.min(end, length === 0 ? end : first + length); layer++) {
        const run = this.run[layer];
        most = Math.max(most, plain[layer] - plain[first] + full[run] - own + working[run]);
      }
    }
    return [kept, most];
  }
}
