/** A timeline with its tools: search, zoom, what is shown, and what the colours mean. */
import { type Colours, shadesOf } from "./colours";
import { CAUSES, CAUSE_WORDS, COPIES, ENCODERS, type Report } from "./data";
import { button, el, toggle } from "./dom";
import { Viewer, type ViewerOptions } from "./viewer";
import { say } from "./words";

const OPS: Record<string, string> = { F: "forward", B: "backward", I: "input", W: "weight" };

export class Panel {
  readonly element: HTMLElement;
  readonly viewer: Viewer;
  readonly search: HTMLInputElement;
  private readonly result = el("output", { class: "count" });
  private readonly legend = el("ul", { class: "legend", "aria-label": say("legend") });

  constructor(place: HTMLElement, private readonly report: Report, options: ViewerOptions) {
    this.search = el("input", { type: "search", placeholder: say("search_example"), "aria-label": say("search"), spellcheck: "false" });
    this.search.addEventListener("keydown", (event) => this.typed(event));
    const view = el("div");
    const tools = el("div", { class: "tools", role: "toolbar", "aria-label": say("timeline_tools") });
    this.element = el("div", { class: "panel" }, tools, this.legend, view);
    place.append(this.element);
    this.viewer = new Viewer(view, report, options);
    tools.append(
      this.search,
      this.result,
      button("+", () => this.viewer.zoom(1.6), { "aria-label": say("zoom_in"), title: say("zoom_in") }),
      button("−", () => this.viewer.zoom(1 / 1.6), { "aria-label": say("zoom_out"), title: say("zoom_out") }),
      button(say("whole"), () => this.viewer.fit()),
      toggle(say("show_causes"), this.viewer.showsCauses, (isOn) => { this.viewer.showsCauses = isOn; }),
      toggle(say("show_critical"), false, (isOn) => { this.viewer.showsCritical = isOn; }),
    );
    this.fillLegend(options.colours);
  }

  setColours(colours: Colours): void {
    this.viewer.setColours(colours);
    this.fillLegend(colours);
  }

  private typed(event: KeyboardEvent): void {
    event.stopPropagation();
    if (event.key === "Escape") {
      this.search.value = "";
      this.result.value = "";
      this.viewer.focus();
    }
    if (event.key !== "Enter" || this.search.value.trim() === "") return;
    const found = this.viewer.find(this.search.value, event.shiftKey ? -1 : 1);
    this.result.value =
      found === null ? say("search_unknown") : found.count === 0 ? say("search_nothing") : say("search_found", { ...found });
  }

  private fillLegend(colours: Colours): void {
    const { head, causes, copies, op, recompute, saved } = this.report.timelines[this.viewer.timeline];
    const used = new Set(op);
    const items = head.ops
      .map((letter, code) => [letter, code] as const)
      .filter(([, code]) => used.has(code))
      .map(([letter]) => entry(say(OPS[letter]), shadesOf(colours, letter).slice(0, head.chunks)));
    if (head.chunks > 1) items.push(el("li", { class: "hint" }, say("shades_are_chunks")));
    if (recompute.some((each) => each > 0)) {
      const swatch = el("span", { class: "swatch hatched" });
      items.push(el("li", {}, swatch, say("recompute")));
    }
    if (copies.length > 0) items.push(...COPIES.map((name, way) => entry(say(name), [colours.copies[way]])));
    items.push(...head.encoders.map((_count, way) => entry(say(ENCODERS[way]), [colours.encoders[way]])));
    if (saved?.some((each) => each > 0)) items.push(entry(say("hidden"), [colours.hidden]));
    if (causes !== null) {
      items.push(el("li", { class: "hint" }, say("idle_by")), ...CAUSES.filter((cause) => causes[cause].some((each) => each > 0)).map((cause) => entry(say(CAUSE_WORDS[cause]), [colours[cause]])));
    } else items.push(entry(say("idle"), [colours.unknown]));
    this.legend.replaceChildren(...items);
  }
}

function entry(name: string, colours: string[]): HTMLLIElement {
  const swatches = colours.map((colour) => {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = colour;
    return swatch;
  });
  return el("li", {}, ...swatches, name);
}
