/** Orders of work for other numbers of microbatches: of the families that `schedule/orders.py` makes by merging, and of others. */
import { oneFOneBV } from "./orders_inserted";
import { hasBlock, squeezed } from "./orders_v";
import { dualpipeV, type Planned, zbTurns } from "./orders_zb";
import { type Actions, BACKWARD, FORWARD } from "./simulation";

export interface OrderSizes {
  ranks: number;
  chunks: number;
  microbatches: number;
  splits: number;
  /** Microbatches of a group, where it is not the usual number. */
  group: number | null;
}

/** Forwards of each rank before its first backward, from those of the first pass through its chunks and the ranks behind it. */
const WARMUPS: Record<string, (firstPass: number, behind: number, all: number) => number> = {
  "f-then-b": (_firstPass, _behind, all) => all,
  "1f1b": (firstPass, behind) => firstPass + behind,
  "eager-1f1b": (firstPass, behind) => firstPass + 2 * behind,
  interleaved: (firstPass, behind) => firstPass + 2 * behind,
  "interleaved-less-memory": (firstPass, behind) => firstPass + behind,
};

/** Turns by which each rank is ahead of the one behind it. */
const AHEAD: Record<string, number> = { "zb-h1": 1, "zb-h2": 2 };

export function canOrder(family: string | null): boolean {
  return family !== null && (Object.hasOwn(WARMUPS, family) || Object.hasOwn(AHEAD, family) || hasBlock(family) || ["dualpipe-v", "1f1b-v", "naive"].includes(family));
}

/** The order of a family of which `canOrder` is so. */
export function orderOf(family: string, sizes: OrderSizes): Actions {
  const { ranks, microbatches, splits } = sizes;
  if (Object.hasOwn(AHEAD, family)) return actionsOf(zbTurns(AHEAD[family], ranks, microbatches, splits));
  if (hasBlock(family)) return actionsOf(squeezed(family, ranks, microbatches));
  if (family === "dualpipe-v") return actionsOf(dualpipeV(ranks, microbatches));
  if (family === "1f1b-v") return actionsOf(oneFOneBV(ranks, microbatches));
  return family === "naive" ? actionsOf(naive(sizes)) : merged(family, sizes);
}

function actionsOf(orders: readonly (readonly Planned[])[]): Actions {
  const rankStarts = [0];
  for (const order of orders) rankStarts.push(rankStarts[rankStarts.length - 1] + order.length);
  const all = orders.flat();
  return { op: Uint8Array.from(all, ([op]) => op), stage: Uint16Array.from(all, ([, stage]) => stage), unit: Uint32Array.from(all, ([, , unit]) => unit), rankStarts };
}

/** One microbatch at a time: forward through all chunks, and backward. */
function naive(sizes: OrderSizes): Planned[][] {
  const { ranks, chunks, microbatches, splits } = sizes;
  const [forwards, backwards] = chunkOrders(Array<number>(microbatches).fill(1), sizes);
  const each = chunks * splits;
  const own = Array.from({ length: microbatches }, (_each, number) => {
    const part = [number * each, (number + 1) * each] as const;
    return [...forwards.slice(...part).map((cell) => [FORWARD, ...cell] as const), ...backwards.slice(...part).map((cell) => [BACKWARD, ...cell] as const)];
  }).flat();
  return Array.from({ length: ranks }, (_each, rank) => own.map(([op, chunk, unit]): Planned => [op, chunk * ranks + rank, unit]));
}

function merged(family: string, sizes: OrderSizes): Actions {
  const { ranks, chunks, microbatches, splits } = sizes;
  const groups = family.startsWith("interleaved") ? groupSizes(sizes) : [microbatches];
  const own = chunks * microbatches * splits;
  const [forwards, backwards] = chunkOrders(groups, sizes);
  const firstPass = (chunks - 1) * groups[0] * splits + splits - 1;
  const actions = { op: new Uint8Array(2 * own * ranks), stage: new Uint16Array(2 * own * ranks), unit: new Uint32Array(2 * own * ranks) };
  let place = 0;
  const put = (op: number, [chunk, unit]: [number, number], rank: number): void => {
    [actions.op[place], actions.stage[place], actions.unit[place]] = [op, chunk * ranks + rank, unit];
    place++;
  };
  for (let rank = 0; rank < ranks; rank++) {
    const warmup = Math.min(own, WARMUPS[family](firstPass, ranks - rank - 1, own));
    for (let turn = 0; turn < own + warmup; turn++) {
      if (turn < own) put(FORWARD, forwards[turn], rank);
      if (turn >= warmup) put(BACKWARD, backwards[turn - warmup], rank);
    }
  }
  return { ...actions, rankStarts: Array.from({ length: ranks + 1 }, (_each, rank) => rank * 2 * own) };
}

/** Microbatches of each group: a remainder that fills the pipeline is a last one, a smaller one joins the first. */
function groupSizes({ ranks, splits, microbatches, group }: OrderSizes): number[] {
  const fill = Math.ceil(ranks / splits);
  const size = group ?? fill;
  const whole = Math.floor(microbatches / size);
  const rest = microbatches % size;
  if (whole === 0) return [microbatches];
  return rest >= fill ? [...Array<number>(whole).fill(size), rest] : [size + rest, ...Array<number>(whole - 1).fill(size)];
}

/** Chunk and unit of all forwards of a rank, and of all its backwards: groups go up through the chunks, and down again. */
function chunkOrders(groups: readonly number[], { chunks, splits }: OrderSizes): [[number, number][], [number, number][]] {
  const [forwards, backwards]: [[number, number][], [number, number][]] = [[], []];
  let first = 0;
  for (const size of groups) {
    for (let chunk = 0; chunk < chunks; chunk++) {
      for (let microbatch = first; microbatch < first + size; microbatch++) {
        for (let part = 0; part < splits; part++) {
          forwards.push([chunk, microbatch * splits + part]);
          backwards.push([chunks - 1 - chunk, microbatch * splits + splits - 1 - part]);
        }
      }
    }
    first += size;
  }
  return [forwards, backwards];
}
