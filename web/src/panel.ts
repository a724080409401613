/** A timeline, or several below each other, with their tools: search, zoom, what is shown, and what the colours mean. */
import type { Colours } from "./colours";
import { counterparts } from "./counterparts";
import type { Report, Timeline } from "./data";
import { fillDock } from "./dock";
import { button, el, toggle } from "./dom";
import { AXIS, type Shape, TIMELINES } from "./layout";
import { legendOf } from "./legend";
import { rankList } from "./rank_list";
import { type RowView, zoomedRows } from "./row_view";
import { showTime, type Span } from "./scale";
import { Viewer } from "./viewer";
import { stepOf } from "./work";
import { say } from "./words";

/** What people switch, for all timelines alike. */
export interface Settings {
  rows: RowView;
  showsCauses: boolean;
  showsPath: boolean;
  showsMemory: boolean;
}

export interface PanelOptions {
  timelines: readonly number[];
  colours: Colours;
  settings: Settings;
  /** Where there are several: whether each has a time axis of its own. */
  ownAxes?: boolean;
  /** Called when anything is chosen, moved or switched. */
  changed: () => void;
}

/** Pixels around a timeline among others, and those of tools and legend above them all. */
const AROUND = 31;
const ABOVE = 72;

export class Panel {
  readonly element: HTMLElement;
  private readonly views = el("div", { class: "views", tabindex: -1 });
  readonly viewers: Viewer[];
  readonly search: HTMLInputElement;
  private readonly result = el("output", { class: "count" });
  private readonly legend = el("ul", { class: "legend", "aria-label": say("legend") });
  private readonly ranks = el("div", { class: "rank-list", hidden: true });
  private readonly dock = el("aside", { class: "dock", tabindex: 0, "aria-label": say("dock"), hidden: true });
  private readonly matched = new Map<Viewer, Map<Viewer, Int32Array>>();
  private chosen: Viewer;

  constructor(place: HTMLElement, private readonly report: Report, private readonly options: PanelOptions) {
    const { settings } = options;
    this.search = el("input", { type: "search", placeholder: say("search_example"), "aria-label": say("search"), spellcheck: "false" });
    this.search.addEventListener("keydown", (event) => this.typed(event));
    const tools = el("div", { class: "tools", role: "toolbar", "aria-label": say("timeline_tools") });
    this.element = el("div", { class: "panel" }, tools, this.ranks, this.legend, this.views, this.dock);
    place.append(this.element);
    this.viewers = options.timelines.map((timeline, place) => this.viewer(timeline, place));
    this.chosen = this.viewers[0];
    const rows = (by: 1 | -1) => () => this.arrange(zoomedRows(settings.rows, by));
    const ranksButton = button(say("ranks_tool"), () => {
      this.ranks.hidden = !this.ranks.hidden;
      ranksButton.setAttribute("aria-expanded", String(!this.ranks.hidden));
    }, { "aria-expanded": "false" });
    tools.append(
      this.search,
      this.result,
      button("+", () => this.active.zoom(1.6), { "aria-label": say("zoom_in"), title: say("zoom_in") }),
      button("−", () => this.active.zoom(1 / 1.6), { "aria-label": say("zoom_out"), title: say("zoom_out") }),
      button(say("whole"), () => this.active.fit()),
      button("⇕ +", rows(1), { "aria-label": say("rows_higher"), title: say("rows_higher") }),
      button("⇕ −", rows(-1), { "aria-label": say("rows_lower"), title: say("rows_lower") }),
      ranksButton,
      button(say("sums_tool"), () => this.sum(), { title: say("sums_hint") }),
      toggle(say("show_causes"), settings.showsCauses, (isOn) => { settings.showsCauses = isOn; this.apply(); }),
      toggle(say("show_critical"), settings.showsPath, (isOn) => { settings.showsPath = isOn; this.apply(); }),
    );
    if (this.timelines.some((each) => each.memory !== null)) {
      tools.append(toggle(say("memory"), settings.showsMemory, (isOn) => { settings.showsMemory = isOn; this.apply(); }));
    }
    this.apply();
  }

  /** Let the next Tab lead to the first timeline: whoever comes with a keyboard comes for it. */
  startHere(): void {
    this.views.focus({ preventScroll: true });
  }

  /** The viewer that keys are for. */
  get active(): Viewer {
    return this.viewers.find((each) => each.isActive) ?? this.chosen;
  }

  get isActive(): boolean {
    return this.viewers.some((each) => each.isActive);
  }

  setColours(colours: Colours): void {
    this.options.colours = colours;
    for (const viewer of this.viewers) viewer.setColours(colours);
    this.fillLegend();
  }

  destroy(): void {
    for (const viewer of this.viewers) viewer.destroy();
    this.element.remove();
  }

  /** Show what the settings say. */
  apply(): void {
    const { settings } = this.options;
    for (const viewer of this.viewers) viewer.set(settings);
    this.fillLegend();
    const ranks = Math.max(...this.timelines.map((each) => each.head.ranks));
    this.tell();
    rankList(this.ranks, settings.rows, ranks, (changed) => this.arrange(changed));
    this.options.changed();
  }

  /** Show what the timelines have become; see `Viewer.refresh`. */
  refresh(isSameOrder: boolean): void {
    for (const viewer of this.viewers) {
      viewer.refresh(isSameOrder);
      viewer.set(this.options.settings);
    }
    this.fillLegend();
    this.tell();
    this.options.changed();
  }

  private get timelines(): Timeline[] {
    return this.options.timelines.map((each) => this.report.timelines[each]);
  }

  private arrange(rows: RowView): void {
    this.options.settings.rows = rows;
    this.apply();
  }

  private viewer(timeline: number, place: number): Viewer {
    const { colours, settings, ownAxes } = this.options;
    const all = this.timelines;
    const isOne = all.length === 1;
    const { head } = this.report.timelines[timeline];
    const most = 1.06 * Math.max(...all.flatMap(({ head: each }) => [each.limit_bytes ?? 0, ...(each.peak_bytes ?? [0])]));
    const ranks = all.reduce((sum, each) => sum + each.head.ranks, 0);
    const top = this.element.getBoundingClientRect().top + window.scrollY + ABOVE;
    const room = Math.max(200, window.innerHeight - top - AXIS - AROUND * all.length);
    const shape: Shape = {
      rows: settings.rows,
      room: isOne ? TIMELINES : (room * head.ranks) / ranks,
      showsMemory: settings.showsMemory,
      showsOverview: isOne,
      showsAxis: isOne || place === 0 || ownAxes === true,
    };
    const own = isOne ? this.views : el("div", { class: "beside" }, el("h3", {}, head.name, el("small", {}, showTime(stepOf(head)))));
    if (!isOne) this.views.append(own);
    const extent = Math.max(...(ownAxes ? [head] : all.map((each) => each.head)).map((each) => each.makespan_ns), 1);
    const viewer = new Viewer(own, this.report, { timeline, colours, shape, extent, ...(isOne ? {} : { mostBytes: most }) });
    viewer.onWindow = (window) => this.moved(viewer, window);
    viewer.onChoice = () => this.choose(viewer);
    return viewer;
  }

  /** One part of the step is seen in all timelines. */
  private moved(source: Viewer, window: Span): void {
    for (const viewer of this.viewers) {
      const share = viewer.whole.to / source.whole.to;
      if (viewer !== source) viewer.window = { from: share * window.from, to: share * window.to };
    }
    this.options.changed();
  }

  /** What is chosen in one timeline is marked in all. */
  private choose(source: Viewer): void {
    this.chosen = source;
    for (const viewer of this.viewers) if (viewer !== source) viewer.mark(source.selected < 0 ? -1 : this.counterpart(source, viewer));
    this.tell();
    this.options.changed();
  }

  /** Sums of what is seen. */
  private sum(): void {
    const viewer = this.active;
    const { from, to } = viewer.window;
    viewer.range = { from: Math.max(0, Math.round(from)), to: Math.min(viewer.data.head.makespan_ns, Math.round(to)) };
  }

  /** Tell below of what is chosen. */
  private tell(): void {
    const { chosen } = this;
    const others = chosen.selected < 0 ? [] : this.viewers.filter((each) => each !== chosen).map((viewer) => ({ viewer, action: this.counterpart(chosen, viewer) }));
    fillDock(this.dock, this.report.head, chosen, others, this.options.settings.showsPath);
  }

  private counterpart(source: Viewer, viewer: Viewer): number {
    const known = this.matched.get(source) ?? new Map<Viewer, Int32Array>();
    this.matched.set(source, known);
    const actions = known.get(viewer) ?? counterparts(source.data, viewer.data);
    known.set(viewer, actions);
    return actions[source.selected];
  }

  private typed(event: KeyboardEvent): void {
    event.stopPropagation();
    if (event.key === "Escape") {
      this.search.value = "";
      this.result.value = "";
      this.active.focus();
    }
    if (event.key !== "Enter" || this.search.value.trim() === "") return;
    const found = this.active.find(this.search.value, event.shiftKey ? -1 : 1);
    this.result.value =
      found === null ? say("search_unknown") : found.count === 0 ? say("search_nothing") : say("search_found", { ...found });
  }

  private fillLegend(): void {
    const { colours, settings } = this.options;
    const items = legendOf(this.timelines, colours, settings.showsCauses).map(({ name, shades, isHatched }) => {
      const swatches = shades.map((shade) => {
        const swatch = el("span", { class: isHatched ? "swatch hatched" : "swatch" });
        if (!isHatched) swatch.style.background = shade;
        return swatch;
      });
      return el("li", { class: shades.length === 0 ? "hint" : "" }, ...swatches, name);
    });
    this.legend.replaceChildren(...items);
  }
}
