/** A plan that somebody changes on the page: its cells, its microbatches, its memory limit, and what follows from them. */
import { type Columns, Timeline, type TimelineHead } from "./data";
import { canOrder, orderOf } from "./orders";
import { type Actions, Order } from "./simulation";
import { Layers, type WhatIfModel } from "./stage_costs";
import { say } from "./words";

/** What can be changed. */
export interface Change {
  /** Layers of every stage under each recompute kind, none last. */
  counts: readonly (readonly number[])[];
  microbatches: number;
  limit: number | null;
}

/** Most actions that a page lets somebody ask for. */
const MOST_ACTIONS = 262_144;

export class ChangedPlan {
  readonly layers: Layers;
  readonly original: Change;
  readonly kinds: readonly string[];
  private order: Order;
  private orderMicrobatches: number;

  constructor(readonly base: Timeline, readonly model: WhatIfModel) {
    const { head } = base;
    this.layers = new Layers(model);
    this.kinds = model.kinds;
    this.original = { counts: model.counts, microbatches: head.microbatches, limit: head.limit_bytes };
    this.order = this.orderFor(head.microbatches);
    this.orderMicrobatches = head.microbatches;
  }

  /** Whether the plan as it was comes out as the simulator had it, to the nanosecond and the byte. */
  get isExact(): boolean {
    const { base } = this;
    const same = this.timeline(this.original);
    const equal = (one: ArrayLike<number>, other: ArrayLike<number>): boolean => one.length === other.length && Array.prototype.every.call(one, (value, index) => value === other[index]);
    const peaks = base.head.peak_bytes;
    return same !== null && equal(same.start, base.start) && equal(same.end, base.end) && (base.memory === null || peaks === null || equal(same.head.peak_bytes!, peaks));
  }

  /** The numbers of microbatches that can be asked for; null where the page cannot make the order. */
  get microbatches(): { least: number; most: number } | null {
    const { family, group_size: group } = this.model;
    if (!canOrder(family)) return null;
    const { base } = this;
    const each = base.actions / base.head.microbatches;
    return { least: group ?? 1, most: Math.max(base.head.microbatches, Math.floor(MOST_ACTIONS / each)) };
  }

  /** The first layer of every stage, and the number of all. */
  borders({ counts }: Change): number[] {
    const borders = [0];
    for (const own of counts) borders.push(borders[borders.length - 1] + layersOf(own));
    return borders;
  }

  /** Whether stages may begin and end there: layers may have to stay together, or be in some stages alone. */
  allows(borders: readonly number[]): boolean {
    const { head } = this.base;
    const { begins, rules } = this.model.layers;
    const { run } = this.layers;
    for (let stage = 0; stage < head.stages; stage++) {
      const [first, end] = [borders[stage], borders[stage + 1]];
      if (first < end && first > 0 && !begins[run[first]]) return false;
      for (let layer = first; layer < end; layer++) {
        for (const rule of rules[run[layer]]) {
          const [rank, chunk] = [head.stage_rank[stage], head.stage_chunk[stage]];
          if (rule === "alone" && run.subarray(first + 1, end).some((other) => begins[other])) return false;
          if (rule === "last_rank" && rank !== head.ranks - 1) return false;
          if (rule === "not_first_rank" && rank === 0) return false;
          if (rule === "last_chunk" && chunk !== head.chunks - 1) return false;
          if (rule === "last_stage" && stage !== head.stages - 1) return false;
        }
      }
    }
    return true;
  }

  /**
   * The change with the border behind a stage at a layer, or at the nearest one from where it is that is allowed. Layers that
   * come to a stage recompute nothing; of a stage that loses some, those that recompute least go first.
   */
  withBorder(change: Change, stage: number, at: number): Change {
    const borders = this.borders(change);
    const now = borders[stage + 1];
    const wanted = Math.min(Math.max(at, borders[stage]), borders[stage + 2]);
    const towards = Math.sign(wanted - now);
    if (towards === 0) return change;
    const isAllowed = (layer: number): boolean => this.allows(borders.with(stage + 1, layer));
    let layer = wanted;
    while (layer !== now && !isAllowed(layer)) layer -= towards;
    if (layer === now) {
      // Blocks of layers move as one: further on there may be room for the next.
      for (layer = wanted; layer >= borders[stage] && layer <= borders[stage + 2] && !isAllowed(layer); ) layer += towards;
      if (layer < borders[stage] || layer > borders[stage + 2]) return change;
    }
    const counts = change.counts
      .with(stage, resized(change.counts[stage], layer - borders[stage]))
      .with(stage + 1, resized(change.counts[stage + 1], borders[stage + 2] - layer));
    return { ...change, counts };
  }

  /** The change with so many layers of a stage under a kind, at most as many as others leave. */
  withKind(change: Change, stage: number, kind: number, count: number): Change {
    const own = [...change.counts[stage]];
    const none = own.length - 1;
    const next = Math.min(Math.max(count, 0), own[kind] + own[none]);
    own[none] -= next - own[kind];
    own[kind] = next;
    return { ...change, counts: change.counts.with(stage, own) };
  }

  /** Whether it says something that can be simulated. */
  isPossible(change: Change): boolean {
    const { stages } = this.base.head;
    const range = this.microbatches;
    const areCounts = change.counts.length === stages && change.counts.every((own) => own.length === this.kinds.length && own.every((count) => count >= 0));
    if (!areCounts || (change.limit !== null && change.limit <= 0)) return false;
    const inRange = range === null ? change.microbatches === this.original.microbatches : change.microbatches >= range.least && change.microbatches <= range.most;
    const borders = this.borders(change);
    return inRange && borders[stages] === this.layers.number && this.allows(borders);
  }

  /** The changed plan as the simulator has it; null where its numbers are too large to be exact here. */
  timeline(change: Change): Timeline | null {
    const { base } = this;
    if (this.orderMicrobatches !== change.microbatches) {
      this.order = this.orderFor(change.microbatches);
      this.orderMicrobatches = change.microbatches;
    }
    const { order } = this;
    const { op, stage, unit, rankStarts } = order.actions;
    const costs = this.layers.costs(change.counts, base.head.stage_rank);
    const run = order.run(costs);
    const changes = base.memory === null ? null : order.changes(costs);
    const peaks = changes === null ? null : order.peaks(costs, changes);
    if (![run.makespan, ...(peaks ?? [])].every(Number.isSafeInteger)) return null;
    const columns: Columns = {
      op, stage, unit, start: run.start, end: run.end, input: order.input, message: run.message, gap: gapsOf(run.start, run.end, rankStarts, run.makespan),
      recompute: order.recompute(costs),
      causes: null, memory: changes, memoryAtEnd: null, saved: null, copies: [], encoders: [],
    };
    const busy = Array.from({ length: base.head.ranks }, (_each, rank) => {
      let sum = 0;
      for (let index = rankStarts[rank]; index < rankStarts[rank + 1]; index++) sum += run.end[index] - run.start[index];
      return sum;
    });
    const head: TimelineHead = {
      ...base.head, microbatches: change.microbatches, makespan_ns: run.makespan, limit_bytes: change.limit, actions: op.length, rank_starts: [...rankStarts],
      static_bytes: changes === null ? null : [...costs.fixed], working_bytes: changes === null ? null : [...costs.working], peak_bytes: peaks,
      busy_ns: busy, idle: null, path: [], stage_layers: change.counts.map((_own, at) => this.words(change, at)),
    };
    return new Timeline(head, columns);
  }

  /** The layers of a stage: `layers 4 to 8; full: 2`. */
  words(change: Change, stage: number): string {
    const [first, end] = this.borders(change).slice(stage, stage + 2);
    if (first === end) return say("no_layers");
    const kinds = this.kinds.slice(0, -1).flatMap((kind, place) => (change.counts[stage][place] > 0 ? [`${kind}: ${change.counts[stage][place]}`] : []));
    const span = end - first === 1 ? say("layer_alone", { first }) : say("layers_from_to", { first, last: end - 1 });
    return [span, ...kinds].join("; ");
  }

  private orderFor(microbatches: number): Order {
    const { base, model } = this;
    const { ranks, chunks, splits, rank_starts: rankStarts, stage_rank: stageRank } = base.head;
    const { op, stage, unit } = base;
    const actions: Actions =
      microbatches === base.head.microbatches ? { op, stage, unit, rankStarts } : orderOf(model.family!, { ranks, chunks, microbatches, splits, group: model.group_size });
    return new Order(actions, stageRank);
  }
}

export function layersOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** The counts of a stage with another number of layers. */
function resized(counts: readonly number[], layers: number): number[] {
  const own = [...counts];
  own[own.length - 1] += layers - layersOf(counts);
  for (let kind = own.length - 1; kind > 0 && own[kind] < 0; kind--) {
    own[kind - 1] += own[kind];
    own[kind] = 0;
  }
  return own;
}

function gapsOf(start: Float64Array, end: Float64Array, rankStarts: readonly number[], makespan: number): Float64Array {
  const ranks = rankStarts.length - 1;
  const gap = new Float64Array(start.length + ranks);
  for (let rank = 0; rank < ranks; rank++) {
    let now = 0;
    for (let index = rankStarts[rank]; index < rankStarts[rank + 1]; index++) {
      gap[index] = start[index] - now;
      now = end[index];
    }
    gap[start.length + rank] = makespan - now;
  }
  return gap;
}
