/** The plan file of a changed plan: what `evenflow simulate` reads, without what is only true of the plan as it was. */
import { type Change, type ChangedPlan, layersOf } from "./changed_plan";

/** Fields that hold for every change: the model, its messages, the order of work, and what the devices of every stage do. */
const KEPT = [
  "network", "communication", "schedule", "sequence_splits", "group_size", "mtp_layers", "encoder_layers", "continuing_layers", "order",
  "degrees", "microbatch", "sequence", "expert_capacity",
];
const MEGABYTE = 2 ** 20;

export function planFile(plan: ChangedPlan, { counts, microbatches, limit }: Change, original: string): string {
  const fields = JSON.parse(original) as Record<string, unknown>;
  const { head } = plan.base;
  const table = (value: (own: readonly number[]) => number): number[][] => {
    const rows = Array.from({ length: head.chunks }, () => Array<number>(head.ranks).fill(0));
    counts.forEach((own, stage) => { rows[head.stage_chunk[stage]][head.stage_rank[stage]] = value(own); });
    return rows;
  };
  const kinds = plan.kinds.slice(0, -1).map((kind, place) => [kind, table((own) => own[place])]);
  const changed = {
    ranks: head.ranks,
    chunks: head.chunks,
    microbatches,
    layers: table(layersOf),
    recompute: Object.fromEntries(kinds) as Record<string, number[][]>,
    memory_limit_mb: limit === null ? null : limit / MEGABYTE,
  };
  const kept = Object.fromEntries(KEPT.filter((key) => key in fields).map((key) => [key, fields[key]]));
  return `${JSON.stringify({ ...changed, ...kept }, null, 2)}\n`;
}
