/** The stages in a row for each chunk, as wide as they have layers: their borders are moved, and one of them is chosen. */
import { type Change, type ChangedPlan, layersOf } from "./changed_plan";
import { button, el } from "./dom";
import { say } from "./words";

export interface StripActions {
  choose: (stage: number) => void;
  /** While a border is dragged, and when it is let go; keys let go at once. */
  move: (change: Change, isDone: boolean) => void;
}

/** What a stage is called. */
export function stageName(plan: ChangedPlan, stage: number): string {
  const { head } = plan.base;
  const values = { rank: head.stage_rank[stage], chunk: head.stage_chunk[stage] };
  return say(head.chunks > 1 ? "chunk_of_rank" : "rank_label", values);
}

export class CutStrip {
  readonly element = el("div", { class: "strip", role: "group", "aria-label": say("cut_label") });
  private readonly stages: HTMLButtonElement[] = [];
  private readonly borders: HTMLElement[] = [];
  private change: Change;

  constructor(private readonly plan: ChangedPlan, private readonly actions: StripActions) {
    const { head } = plan.base;
    this.change = plan.original;
    const rows = Array.from({ length: head.chunks }, () => el("div", { class: "strip-row" }));
    for (let stage = 0; stage < head.stages; stage++) {
      const made = button("", () => actions.choose(stage), { class: "stage" });
      this.stages.push(made);
      const row = rows[Math.floor(stage / head.ranks)];
      row.append(made);
      if (stage + 1 === head.stages) continue;
      const border = this.border(stage, row);
      this.borders.push(border);
      row.append(border);
    }
    this.element.append(...rows);
  }

  /** Show a change, and which stage is chosen. */
  show(change: Change, chosen: number): void {
    this.change = change;
    const { base, kinds } = this.plan;
    const borders = this.plan.borders(change);
    this.stages.forEach((element, stage) => {
      const own = change.counts[stage];
      const layers = layersOf(own);
      const recompute = layers === 0 ? 0 : 1 - own[kinds.length - 1] / layers;
      element.style.flexGrow = String(layers);
      element.style.setProperty("--part", `${100 * recompute}%`);
      element.setAttribute("aria-pressed", String(stage === chosen));
      const words = `${stageName(this.plan, stage)}: ${this.plan.words(change, stage)}`;
      element.title = words;
      element.replaceChildren(el("b", {}, String(layers)), el("small", {}, `r${base.head.stage_rank[stage]}`), el("span", { class: "spoken" }, words));
    });
    this.borders.forEach((element, stage) => {
      const values = { valuemin: borders[stage], valuemax: borders[stage + 2], valuenow: borders[stage + 1], valuetext: say("layers_on_both", { before: layersOf(change.counts[stage]), behind: layersOf(change.counts[stage + 1]) }) };
      for (const [name, value] of Object.entries(values)) element.setAttribute(`aria-${name}`, String(value));
    });
  }

  private border(stage: number, row: HTMLElement): HTMLElement {
    const label = say("border_label", { before: stageName(this.plan, stage), behind: stageName(this.plan, stage + 1) });
    const made = el("div", { class: "border", role: "slider", tabindex: 0, "aria-label": label, "aria-orientation": "horizontal", title: label });
    const to = (from: Change, layer: number, isDone: boolean): void => this.actions.move(this.plan.withBorder(from, stage, layer), isDone);
    made.addEventListener("keydown", (event) => {
      const borders = this.plan.borders(this.change);
      const now = borders[stage + 1];
      const target = { ArrowRight: now + 1, ArrowUp: now + 1, ArrowLeft: now - 1, ArrowDown: now - 1, Home: borders[stage], End: borders[stage + 2] }[event.key];
      if (target === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      to(this.change, target, true);
    });
    made.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      made.setPointerCapture(down.pointerId);
      const before = this.change;
      const first = this.plan.borders(before)[stage + 1];
      const inRow = [...row.querySelectorAll<HTMLButtonElement>(".stage")].map((each) => layersOf(before.counts[this.stages.indexOf(each)]));
      const perLayer = row.clientWidth / Math.max(layersOf(inRow), 1);
      const dragged = (event: PointerEvent, isDone: boolean): void => to(before, first + Math.round((event.clientX - down.clientX) / perLayer), isDone);
      const move = (event: PointerEvent): void => dragged(event, false);
      const end = (event: PointerEvent): void => {
        made.removeEventListener("pointermove", move);
        made.removeEventListener("pointerup", end);
        made.removeEventListener("pointercancel", end);
        dragged(event.type === "pointerup" ? event : down, true);
      };
      made.addEventListener("pointermove", move);
      made.addEventListener("pointerup", end);
      made.addEventListener("pointercancel", end);
    });
    return made;
  }
}
