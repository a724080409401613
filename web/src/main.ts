/** The page: what stands in the HTML, made alive. */
import type { Colours } from "./colours";
import { readReport, textOf, type Report } from "./data";
import { button, choice, download, el, fileName } from "./dom";
import { Panel } from "./panel";
import { formatPlace, parsePlace, type Place } from "./permalink";
import { chromeTrace } from "./perfetto";
import { runBlocks } from "./run_blocks";
import { savePng, saveSvg } from "./save";
import type { Span } from "./scale";
import { matches } from "./search";
import { actionTable, addBars, differences } from "./tables";
import { applyTheme, coloursOf, type PaletteName, remember, remembered, systemTheme, type Theme } from "./themes";
import { say, useWords } from "./words";

const ALL = -1;
/** Most timelines that are drawn beside each other. */
const MOST_BESIDE = 6;
const KEYS: [string, string][] = [
  ["W S + −", "key_zoom"],
  ["A D", "key_pan"],
  ["0", "key_whole"],
  ["← →", "key_along"],
  ["↑ ↓", "key_across"],
  ["Enter", "key_enter"],
  ["Esc", "key_escape"],
  ["/", "key_search"],
  ["1 … 9 [ ]", "key_switch"],
  ["?", "key_help"],
];

class Page {
  private readonly main = document.getElementById("report")!;
  private readonly sections: HTMLElement[];
  private readonly compare = el("section", { class: "compare", hidden: true });
  private readonly tabs: HTMLButtonElement[] = [];
  private readonly help: HTMLDialogElement;
  private panels: Panel[] = [];
  private shown: number;
  private theme: Theme;
  private palette: PaletteName;
  private linking = 0;
  private isFollowing = false;

  constructor(private readonly report: Report) {
    this.sections = [...this.main.querySelectorAll<HTMLElement>("section[id^=timeline-]")];
    this.theme = (remembered("theme") as Theme | null) ?? systemTheme();
    this.palette = remembered("palette") === "paper" ? "paper" : "safe";
    this.help = this.helpDialog();
    applyTheme(this.theme, this.colours);
    this.header();
    this.sections.forEach((section, index) => this.enliven(section, index));
    this.main.append(this.compare, el("footer", {}, say("made_by", { program: report.head.made_by })), this.help);
    this.shown = Math.min(parsePlace(location.hash).plan ?? (report.timelines.length > 1 && report.timelines.some((each) => each.head.kind === "measured") ? ALL : 0), report.timelines.length - 1);
    this.show(this.shown);
    this.goTo(parsePlace(location.hash));
    addEventListener("hashchange", () => this.goTo(parsePlace(location.hash)));
    document.addEventListener("keydown", (event) => this.pressed(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (remembered("theme") === null) this.setTheme(systemTheme()); });
    this.printLight();
  }

  private get colours(): Colours {
    return coloursOf(this.report.head, this.theme, this.palette);
  }

  private header(): void {
    const { timelines } = this.report;
    const title = this.main.querySelector("h1")!;
    const theme = choice(say("theme"), [["light", say("light")], ["dark", say("dark")]], this.theme, (value) => {
      remember("theme", value);
      this.setTheme(value as Theme);
    });
    const palette = choice(say("colours"), [["safe", say("safe_colours")], ["paper", say("paper_colours")]], this.palette, (value) => {
      this.palette = value as PaletteName;
      remember("palette", value);
      this.recolour();
    });
    theme.id = "theme";
    const tools = el(
      "div",
      { class: "tools" },
      theme,
      palette,
      button(say("save_svg"), () => saveSvg(this.report, this.panels.map((each) => each.viewer), this.colours)),
      button(say("save_png"), () => savePng(this.report, this.panels.map((each) => each.viewer), this.colours)),
      button(say("perfetto"), () => this.downloadTrace(), { title: say("perfetto_hint") }),
      timelines.some((each) => each.head.plan !== null) && button(say("save_plan"), () => this.downloadPlan()),
      button("?", () => this.help.showModal(), { "aria-label": say("help"), title: say("help") }),
    );
    const header = el("header", {}, title, tools);
    if (timelines.length > 1) {
      const nav = el("nav", { class: "tabs", "aria-label": say("timelines") });
      timelines.forEach((each, index) => this.tabs.push(button(`${index + 1} ${each.head.name}`, () => this.show(index))));
      this.tabs.push(button(say("beside"), () => this.show(ALL)));
      nav.append(...this.tabs);
      header.append(nav);
    }
    this.main.prepend(header);
  }

  private enliven(section: HTMLElement, index: number): void {
    const timeline = this.report.timelines[index];
    const table = section.querySelector<HTMLTableElement>("table.ranks")!;
    addBars(table, timeline);
    const scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": say("idle_table") });
    table.replaceWith(scroll);
    scroll.append(table);
    const run = runBlocks(timeline.head);
    if (run !== null) section.querySelector("details.running")!.replaceWith(run);
    section.append(actionTable(timeline, (action) => {
      this.panels[0]?.viewer.select(action, true);
      this.panels[0]?.element.scrollIntoView({ block: "nearest" });
    }));
    for (const fold of section.querySelectorAll("details")) fold.open = false;
    const heading = section.querySelector("h2");
    if (timeline.head.kind === "measured") heading?.append(el("span", { class: "badge" }, say("measured")));
    else if (this.report.timelines.length === 1) heading?.remove();
  }

  /** Show one timeline, or `ALL` beside each other. */
  private show(index: number): void {
    const before = this.panels[0]?.viewer;
    const window = before !== undefined && !before.isWhole ? before.window : null;
    for (const panel of this.panels) {
      panel.viewer.destroy();
      panel.element.remove();
    }
    this.shown = index;
    this.sections.forEach((section, place) => { section.hidden = place !== index; });
    this.compare.hidden = index !== ALL;
    this.tabs.forEach((tab, place) => tab.setAttribute("aria-current", String(place === index || (index === ALL && place === this.tabs.length - 1))));
    this.panels = index === ALL ? this.besides() : [this.panel(this.sections[index].querySelector<HTMLElement>(".slot")!, index)];
    if (window !== null) for (const { viewer } of this.panels) viewer.window = window;
    this.link();
  }

  private panel(place: HTMLElement, timeline: number, mostBytes?: number): Panel {
    const options = { timeline, colours: this.colours, ...(mostBytes === undefined ? {} : { mostBytes }) };
    const panel = new Panel(place, this.report, options);
    panel.viewer.onWindow = (window) => this.moved(panel, window);
    panel.viewer.onSelect = () => this.link();
    return panel;
  }

  private besides(): Panel[] {
    const { head, timelines } = this.report;
    const span = Math.max(...timelines.map((each) => each.head.makespan_ns), 1);
    const most = 1.06 * Math.max(...timelines.flatMap(({ head: one }) => [one.limit_bytes ?? 0, ...(one.peak_bytes ?? [0])]));
    this.compare.replaceChildren(differences(head, timelines));
    const panels = timelines.slice(0, MOST_BESIDE).map(({ head: one }, index) => {
      const place = el("div", { class: "beside" }, el("h3", {}, one.name, one.kind === "measured" && el("span", { class: "badge" }, say("measured"))), one.certificate !== "" && el("p", { class: "certificate" }, one.certificate));
      this.compare.append(place);
      return this.panel(place, index, most);
    });
    if (timelines.length > MOST_BESIDE) this.compare.append(el("p", { class: "note" }, say("more_timelines", { count: timelines.length - MOST_BESIDE })));
    for (const { viewer } of panels) viewer.window = { from: 0, to: span };
    return panels;
  }

  private moved(source: Panel, window: Span): void {
    for (const panel of this.panels) if (panel !== source) panel.viewer.window = window;
    this.link();
  }

  private get active(): Panel | undefined {
    return this.panels.find((each) => each.viewer.isActive) ?? this.panels[0];
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (target.closest("input, select, textarea") !== null) return;
    if (event.key === "Enter" && target.closest("button, summary, a") !== null) return;
    const count = this.report.timelines.length;
    const done = (() => {
      if (event.key === "?") this.help.showModal();
      else if (event.key === "/") this.active?.search.focus();
      else if (count > 1 && /^[1-9]$/.test(event.key) && Number(event.key) <= count) this.show(Number(event.key) - 1);
      else if (count > 1 && event.key === "]") this.show(this.shown + 1 >= count ? ALL : this.shown + 1);
      else if (count > 1 && event.key === "[") this.show(this.shown === ALL ? count - 1 : this.shown - 1);
      else return this.active?.viewer.press(event) ?? false;
      return true;
    })();
    if (done) event.preventDefault();
  }

  private setTheme(theme: Theme): void {
    this.theme = theme;
    this.main.querySelector<HTMLSelectElement>("#theme select")!.value = theme;
    this.recolour();
  }

  /** Paper is white, whatever the screen is, and nothing on it can be opened: it has what a step means, open. */
  private printLight(): void {
    let before = this.theme;
    let folded: HTMLDetailsElement[] = [];
    addEventListener("beforeprint", () => {
      before = this.theme;
      folded = [...this.main.querySelectorAll<HTMLDetailsElement>("details:not(.actions, .running):not([open])")];
      for (const fold of folded) fold.open = true;
      this.setTheme("light");
    });
    addEventListener("afterprint", () => {
      for (const fold of folded) fold.open = false;
      this.setTheme(before);
    });
  }

  private recolour(): void {
    applyTheme(this.theme, this.colours);
    for (const panel of this.panels) panel.setColours(this.colours);
  }

  /** Write into the address what is seen, so that it can be sent around. */
  private link(): void {
    if (this.isFollowing) return;
    clearTimeout(this.linking);
    this.linking = window.setTimeout(() => {
      const hash = formatPlace(this.place());
      try {
        history.replaceState(null, "", hash === "" ? location.pathname + location.search : hash);
      } catch {
        // some browsers forbid this for files
      }
    }, 150);
  }

  private place(): Place {
    const viewer = this.active?.viewer;
    const place: Place = {};
    if (viewer === undefined) return place;
    if (this.report.timelines.length > 1 && this.shown !== ALL) place.plan = this.shown;
    const timeline = this.report.timelines[viewer.timeline];
    if (viewer.selected >= 0) {
      place.rank = timeline.rank(viewer.selected);
      place.microbatch = timeline.microbatch(viewer.selected);
      if (timeline.head.chunks > 1) place.chunk = timeline.chunk(viewer.selected);
      place.op = timeline.letter(viewer.selected);
    }
    if (!viewer.isWhole) {
      place.time = (viewer.window.from + viewer.window.to) / 2;
      place.span = viewer.window.to - viewer.window.from;
    }
    return place;
  }

  private goTo(place: Place): void {
    this.isFollowing = true;
    if (place.plan !== undefined && place.plan < this.report.timelines.length && place.plan !== this.shown) this.show(place.plan);
    const viewer = this.panels[0].viewer;
    const timeline = this.report.timelines[viewer.timeline];
    if (place.time !== undefined) {
      const whole = timeline.head.makespan_ns;
      const span = place.span ?? Math.min(whole / 5, viewer.window.to - viewer.window.from);
      viewer.show({ from: place.time - span / 2, to: place.time + span / 2 });
    }
    if (place.rank !== undefined || place.microbatch !== undefined) {
      const { time, span, plan, ...query } = place;
      const found = matches(timeline, query);
      const nearest = time === undefined ? found[0] : found.toSorted((one, other) => Math.abs(timeline.start[one] - time) - Math.abs(timeline.start[other] - time))[0];
      if (nearest !== undefined) viewer.select(nearest, true);
    }
    this.isFollowing = false;
  }

  private downloadTrace(): void {
    const timelines = this.shown === ALL ? this.report.timelines : [this.report.timelines[this.shown]];
    download(`${fileName(this.report.head.title)}.trace.json`, chromeTrace(this.report.head, timelines), "application/json");
  }

  private downloadPlan(): void {
    const own = this.report.timelines[Math.max(this.shown, 0)].head.plan ?? 0;
    download(`${fileName(this.report.head.title)}.plan.json`, textOf(document, `evenflow-plan-${own}`), "application/json");
  }

  private helpDialog(): HTMLDialogElement {
    const rows = KEYS.map(([keys, word]) => el("tr", {}, el("th", { scope: "row" }, ...keys.split(" ").map((key) => (key === "…" ? "… " : el("kbd", {}, key)))), el("td", {}, say(word))));
    const dialog = el("dialog", { "aria-label": say("help") }, el("h2", {}, say("help")), el("table", {}, el("tbody", {}, ...rows)), el("p", {}, say("help_mouse")));
    dialog.append(button(say("close"), () => dialog.close()));
    return dialog;
  }
}

async function main(): Promise<void> {
  const report = await readReport(document);
  useWords(report.head.words);
  document.documentElement.classList.add("alive");
  new Page(report);
}

void main();
