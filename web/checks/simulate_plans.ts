/** Simulates plans as the page does: JSON on standard input, JSON on standard output. `tests/page/test_what_if.py` compares. */
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { formatChange, parseChange } from "../src/change_code";
import { type Change, ChangedPlan } from "../src/changed_plan";
import { Timeline, type TimelineHead } from "../src/data";
import { planFile } from "../src/saved_plan";
import type { WhatIfModel } from "../src/stage_costs";

interface Given {
  head: TimelineHead;
  op: number[];
  stage: number[];
  unit: number[];
  start: number[];
  end: number[];
  change: Change;
  /** The plan file that the page carries. */
  file: string;
}

function simulated({ head, op, stage, unit, start, end, change, file }: Given): object {
  const actions = op.length;
  const nothing = new Float64Array(actions);
  const base = new Timeline({ ...head, actions, encoders: [] }, {
    op: Uint8Array.from(op), stage: Uint16Array.from(stage), unit: Uint32Array.from(unit), start: Float64Array.from(start), end: Float64Array.from(end),
    recompute: nothing, input: new Int32Array(actions), message: nothing, gap: nothing, causes: null, memory: nothing, memoryAtEnd: null, saved: null,
    copies: [], encoders: [],
  });
  const plan = new ChangedPlan(base, head.what_if as WhatIfModel);
  const timeline = plan.timeline(change)!;
  return {
    isExact: plan.isExact,
    isPossible: plan.isPossible(change),
    isRead: isDeepStrictEqual(parseChange(plan, formatChange(plan, change)), change),
    saved: planFile(plan, change, file),
    makespan: timeline.head.makespan_ns,
    op: [...timeline.op],
    stage: [...timeline.stage],
    unit: [...timeline.unit],
    start: [...timeline.start],
    end: [...timeline.end],
    input: [...timeline.input],
    message: [...timeline.message],
    gap: [...timeline.gap],
    recompute: [...timeline.recompute],
    memory: [...timeline.memory!],
    fixed: timeline.head.static_bytes,
    working: timeline.head.working_bytes,
    peaks: timeline.head.peak_bytes,
  };
}

process.stdout.write(JSON.stringify((JSON.parse(readFileSync(0, "utf8")) as Given[]).map(simulated)));
