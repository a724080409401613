/** Whether steps do equal work, so that their times can be compared. */
import type { TimelineHead } from "./data";

/** Part by which the work of a microbatch may differ, by rounding. */
const CLOSE = 0.001;

export type Comparison =
  | { kind: "equal" }
  /** The same microbatches, more or fewer of them: their times can be compared. */
  | { kind: "by_microbatch" }
  /** Sequences of the same model in other portions. */
  | { kind: "by_token" }
  | { kind: "other" };

export function comparison(base: TimelineHead, head: TimelineHead): Comparison {
  const [one, other] = [base.work, head.work];
  if (one.tokens !== null && other.tokens !== null) return { kind: one.tokens === other.tokens ? "equal" : "by_token" };
  if (one.layers !== null && other.layers !== null && one.layers !== other.layers) return { kind: "other" };
  if (base.microbatches === head.microbatches) return { kind: "equal" };
  if (one.microbatch_ns === null || other.microbatch_ns === null) return { kind: "by_microbatch" };
  return { kind: Math.abs(one.microbatch_ns / other.microbatch_ns - 1) < CLOSE ? "by_microbatch" : "other" };
}

/** The step of a timeline: the whole one, where that is more than the pipeline. */
export function stepOf(head: TimelineHead): number {
  return head.step_ns ?? head.makespan_ns;
}

/** How much longer a step is than another, ns for as much work as that does; null where they cannot be compared. */
export function longerBy(base: TimelineHead, head: TimelineHead): number | null {
  const { kind } = comparison(base, head);
  if (kind === "other") return null;
  const share = kind === "by_token" ? head.work.tokens! / base.work.tokens! : kind === "by_microbatch" ? head.microbatches / base.microbatches : 1;
  return stepOf(head) / share - stepOf(base);
}
