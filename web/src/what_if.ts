/** The mode in which a plan is changed: what can be changed, what becomes of the step and of memory, and the plan file. */
import { formatChange, parseChange, UNCHANGED } from "./change_code";
import { type Change, ChangedPlan } from "./changed_plan";
import { CutStrip, stageName } from "./cut_strip";
import type { Head, Timeline } from "./data";
import { button, download, el } from "./dom";
import { formatList } from "./permalink";
import { copyButton } from "./run_blocks";
import { planFile } from "./saved_plan";
import { grouped, showMemory, showTime } from "./scale";
import type { WhatIfModel } from "./stage_costs";
import { say } from "./words";

export interface WhatIfOptions {
  head: Head;
  /** The timeline of the plan as it is. */
  timeline: Timeline;
  /** The plan file that the page carries; empty for none. */
  file: string;
  fileName: string;
  /** Called with what the plan has become. */
  show: (timeline: Timeline) => void;
  close: () => void;
}

export class WhatIf {
  readonly element: HTMLElement;
  private readonly strip: CutStrip;
  private readonly verdict = el("p", { class: "verdict", role: "status" });
  private readonly stage = el("div", { class: "tools" });
  private readonly ranks = el("ul");
  private readonly undoButton = button(say("undo"), () => this.step(-1));
  private readonly redoButton = button(say("redo"), () => this.step(1));
  private readonly microbatches: HTMLInputElement;
  private readonly limit: HTMLInputElement;
  private history: Change[];
  private at = 0;
  private shown: Change;
  private chosen = 0;

  /** Why a timeline cannot be changed; null where it can. */
  static whyNot({ head }: Timeline): string | null {
    if (head.what_if === undefined) return say("what_if_unknown");
    return "why_not" in head.what_if ? head.what_if.why_not : null;
  }

  /** The mode for a timeline of which nothing says why not; the sentence where its numbers do not come out. */
  static open(options: WhatIfOptions, code: string): WhatIf | string {
    const plan = new ChangedPlan(options.timeline, options.timeline.head.what_if as WhatIfModel);
    return plan.isExact ? new WhatIf(plan, options, parseChange(plan, code) ?? plan.original) : say("what_if_inexact");
  }

  private constructor(private readonly plan: ChangedPlan, private readonly options: WhatIfOptions, begin: Change) {
    const { original, base } = plan;
    this.history = formatChange(plan, begin) === UNCHANGED ? [original] : [original, begin];
    this.at = this.history.length - 1;
    this.shown = begin;
    this.strip = new CutStrip(plan, {
      choose: (stage) => { this.chosen = stage; this.draw(); },
      move: (change, isDone) => this.become(change, isDone),
    });
    const range = plan.microbatches;
    this.microbatches = el("input", { type: "number", min: range?.least ?? 1, max: range?.most ?? 1, disabled: range === null });
    this.microbatches.addEventListener("change", () => this.become({ ...this.shown, microbatches: Math.round(this.microbatches.valueAsNumber) }, true));
    const { bytes, name: unit } = options.head.unit;
    this.limit = el("input", { type: "number", min: 0, step: "any" });
    this.limit.addEventListener("change", () => {
      const value = this.limit.valueAsNumber;
      this.become({ ...this.shown, limit: Number.isNaN(value) ? null : Math.round(value * bytes) }, true);
    });
    const command = `evenflow simulate ${this.fileName}`;
    this.element = el(
      "div",
      { class: "what-if", role: "group", "aria-label": say("what_if") },
      this.verdict,
      el(
        "div",
        { class: "tools" },
        this.undoButton,
        this.redoButton,
        button(say("back_to_plan"), () => options.close()),
        el("label", {}, el("span", {}, say("microbatches")), this.microbatches),
        base.memory !== null && el("label", {}, el("span", {}, say("memory_limit", { unit })), this.limit),
        options.file !== "" && button(say("save_plan"), () => this.save()),
      ),
      range === null && el("p", { class: "note" }, plan.model.family === null ? say("microbatches_own_order") : say("microbatches_fixed", { family: plan.model.family })),
      el("p", { class: "note help" }, say("what_if_help")),
      this.strip.element,
      this.stage,
      base.memory !== null && el("div", { class: "rank-memory", tabindex: 0, role: "region", "aria-label": say("peak") }, this.ranks),
      options.file !== "" && el("p", { class: "note command" }, say("what_if_command"), " ", el("code", {}, command), " ", copyButton(command)),
    );
    this.become(begin, false);
  }

  /** What stands for the change in an address. */
  get code(): string {
    return formatChange(this.plan, this.history[this.at]);
  }

  /** Undo (-1) or redo (1) a change. */
  step(by: 1 | -1): void {
    if (this.history[this.at + by] === undefined) return;
    this.at += by;
    this.become(this.history[this.at], false);
  }

  /** Let keys move the first border. */
  focus(): void {
    this.strip.element.querySelector<HTMLElement>("[role=slider]")?.focus({ preventScroll: true });
  }

  save(): void {
    download(this.fileName, planFile(this.plan, this.history[this.at], this.options.file), "application/json");
  }

  private get fileName(): string {
    return `${this.options.fileName}.what_if.plan.json`;
  }

  /** Show a change, and remember it when it is done. */
  private become(change: Change, isDone: boolean): void {
    const timeline = this.plan.isPossible(change) ? this.plan.timeline(change) : null;
    if (timeline === null) {
      this.draw(); // what was typed is not taken
      return;
    }
    this.shown = change;
    if (isDone && formatChange(this.plan, change) !== this.code) {
      this.history = [...this.history.slice(0, this.at + 1), change];
      this.at += 1;
    }
    this.draw();
    this.tell(timeline);
    this.options.show(timeline);
  }

  private draw(): void {
    const { shown, plan } = this;
    this.undoButton.disabled = this.at === 0;
    this.redoButton.disabled = this.at + 1 === this.history.length;
    this.strip.show(shown, this.chosen);
    this.microbatches.value = String(shown.microbatches);
    this.limit.value = shown.limit === null ? "" : String(Number((shown.limit / this.options.head.unit.bytes).toFixed(4)));
    const kinds = plan.kinds.slice(0, -1);
    const focused = this.stage.contains(document.activeElement) ? document.activeElement?.getAttribute("data-kind") : null;
    this.stage.replaceChildren(
      el("b", {}, stageName(plan, this.chosen)),
      el("span", {}, plan.words(shown, this.chosen)),
      ...kinds.map((kind, place) => {
        const own = shown.counts[this.chosen];
        const input = el("input", { type: "number", min: 0, max: own[place] + own[own.length - 1], value: own[place], "data-kind": kind });
        input.addEventListener("change", () => this.become(plan.withKind(shown, this.chosen, place, Math.round(input.valueAsNumber || 0)), true));
        return el("label", {}, el("span", {}, say("recompute_kind", { kind })), input);
      }),
    );
    if (focused) this.stage.querySelector<HTMLElement>(`[data-kind="${CSS.escape(focused)}"]`)?.focus();
  }

  /** Say what becomes of the step and of memory. */
  private tell({ head }: Timeline): void {
    const before = this.plan.base.head;
    const step = stepSentence(before.makespan_ns, before.microbatches, head.makespan_ns, head.microbatches);
    const { peak_bytes: peaks, limit_bytes: limit } = head;
    if (peaks === null) {
      this.verdict.textContent = step;
      return;
    }
    const { unit } = this.options.head;
    const isOver = limit !== null && peaks.some((peak) => peak > limit);
    this.verdict.replaceChildren(`${step} `, el("span", { class: isOver ? "over" : "" }, memorySentence(peaks, limit, unit)));
    this.ranks.replaceChildren(...memoryBars(peaks, before.peak_bytes ?? peaks, limit, unit));
  }
}

function stepSentence(before: number, countBefore: number, now: number, count: number): string {
  const isSame = count === countBefore;
  const [one, other] = isSame ? [before, now] : [before / countBefore, now / count];
  const values = { step: showTime(now), count, each: showTime(other), before: showTime(one), difference: showTime(Math.abs(other - one)), share: grouped((100 * Math.abs(other - one)) / one, 2) };
  if (other === one) return say(isSame ? "step_as_before" : "each_as_before", values);
  if (isSame) return say(other > one ? "step_longer" : "step_shorter", values);
  return say(other > one ? "each_longer" : "each_shorter", values);
}

function memorySentence(peaks: number[], limit: number | null, unit: Head["unit"]): string {
  const most = Math.max(...peaks);
  const rank = peaks.indexOf(most);
  if (limit === null) return say("memory_most", { rank, memory: showMemory(most, unit) });
  const over = peaks.flatMap((peak, at) => (peak > limit ? [at] : []));
  if (over.length === 0) return say("memory_fits", { rank, memory: showMemory(limit - most, unit) });
  if (over.length === 1) return say("memory_over", { rank, memory: showMemory(most - limit, unit) });
  return say("memory_over_several", { ranks: formatList(over).replaceAll("-", "–"), memory: showMemory(most - limit, unit) });
}

/** A bar for the peak of every rank, with marks at the limit and at the peak of the plan. */
function memoryBars(peaks: number[], before: number[], limit: number | null, unit: Head["unit"]): HTMLElement[] {
  const most = 1.02 * Math.max(limit ?? 0, ...peaks, ...before, 1);
  const at = (bytes: number): string => `${(100 * bytes) / most}%`;
  return peaks.map((peak, rank) => {
    const bar = el("span", { class: "memory-bar" }, el("i", { class: "held" }), el("i", { class: "was" }), limit !== null && el("i", { class: "limit" }));
    bar.querySelector<HTMLElement>(".held")!.style.width = at(peak);
    bar.querySelector<HTMLElement>(".was")!.style.left = at(before[rank]);
    if (limit !== null) bar.querySelector<HTMLElement>(".limit")!.style.left = at(limit);
    const isOver = limit !== null && peak > limit;
    const words = limit === null ? showMemory(peak, unit) : say(isOver ? "peak_over" : "held_free", { held: showMemory(peak, unit), memory: showMemory(Math.abs(limit - peak), unit) });
    return el("li", { class: isOver ? "over" : "" }, el("span", {}, say("rank_label", { rank })), bar, el("span", {}, words));
  });
}
