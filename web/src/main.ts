/** The page: what stands in the HTML, made alive. */
import { differencesOf, stepTable } from "./beside";
import { UNCHANGED } from "./change_code";
import type { Colours } from "./colours";
import type { Report, Timeline } from "./data";
import { button, choice, download, el, fileName } from "./dom";
import { Panel, type Settings } from "./panel";
import { formatPlace, parsePlace, type Place } from "./permalink";
import { chromeTrace } from "./perfetto";
import { readReport, textOf } from "./reading";
import { runBlocks } from "./run_blocks";
import { savePng, saveSvg } from "./save";
import { plainRows } from "./row_view";
import { matches, type Query } from "./search";
import { actionTable, addBars } from "./tables";
import { applyTheme, coloursOf, type PaletteName, remember, remembered, systemTheme, type Theme } from "./themes";
import { WhatIf } from "./what_if";
import { say, useWords } from "./words";

const ALL = -1;
/** Most timelines that are drawn beside each other. */
const MOST_BESIDE = 5;
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
  ["I", "key_what_if"],
  ["?", "key_help"],
];

class Page {
  private readonly main = document.getElementById("report")!;
  private readonly sections: HTMLElement[];
  private readonly compare = el("section", { class: "compare", hidden: true });
  private readonly tabs: HTMLButtonElement[] = [];
  private readonly help: HTMLDialogElement;
  private panel!: Panel;
  private beside: number[];
  private ownAxes = false;
  private readonly settings: Settings = { rows: plainRows(), showsCauses: true, showsPath: false, showsMemory: true };
  private shown: number;
  private theme: Theme;
  private palette: PaletteName;
  private linking = 0;
  private isFollowing = false;
  /** The mode in which the timeline that is shown is changed, that timeline as it was, and the button of the mode. */
  private whatIf: { mode: WhatIf; original: Timeline } | null = null;
  private readonly whatIfButton = button(say("what_if"), () => this.toggleWhatIf(), { title: say("what_if_hint"), "aria-pressed": "false" });

  constructor(private readonly report: Report) {
    this.sections = [...this.main.querySelectorAll<HTMLElement>("section[id^=timeline-]")];
    this.theme = (remembered("theme") as Theme | null) ?? systemTheme();
    this.palette = remembered("palette") === "paper" ? "paper" : "safe";
    this.help = this.helpDialog();
    applyTheme(this.theme, this.colours);
    this.header();
    this.sections.forEach((section, index) => this.enliven(section, index));
    (this.sections.at(-1) ?? this.main.firstElementChild)!.after(this.compare);
    for (const table of this.main.querySelectorAll<HTMLElement>(".ranking .scroll")) {
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", say("searched")]]) table.setAttribute(name, value);
    }
    this.main.append(el("footer", {}, say("made_by", { program: report.head.made_by })), this.help);
    this.beside = report.timelines.map((_each, index) => index).slice(0, MOST_BESIDE);
    const hasMeasured = report.timelines.some((each) => each.head.kind === "measured");
    this.shown = report.timelines.length > 1 && hasMeasured ? ALL : 0;
    this.show(this.shown);
    this.goTo(parsePlace(location.hash));
    addEventListener("hashchange", () => this.goTo(parsePlace(location.hash)));
    document.addEventListener("keydown", (event) => this.pressed(event));
    this.main.addEventListener("click", (event) => this.followed(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (remembered("theme") === null) this.setTheme(systemTheme()); });
    this.printLight();
    if (window.self === window.top) this.panel.startHere(); // in a notebook the focus is not ours
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
      button(say("save_svg"), () => saveSvg(this.report, this.panel.viewers, this.colours)),
      button(say("save_png"), () => savePng(this.report, this.panel.viewers, this.colours)),
      button(say("perfetto"), () => this.downloadTrace(), { title: say("perfetto_hint") }),
      timelines.some((each) => each.head.plan !== null) && button(say("save_plan"), () => this.downloadPlan()),
      timelines.some((each) => each.head.kind === "plan") && this.whatIfButton,
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
      this.panel.active.select(action, true);
    }));
    for (const fold of section.querySelectorAll("details")) fold.open = false;
    const heading = section.querySelector("h2");
    if (timeline.head.kind === "measured") heading?.append(el("span", { class: "badge" }, say("measured")));
    else if (this.report.timelines.length === 1) heading?.classList.add("spoken"); // the title says it already
  }

  /** Show one timeline, or `ALL` beside each other. */
  private show(index: number): void {
    this.closeWhatIf();
    // Beside others, memory is folded at first.
    if ((index === ALL) !== (this.shown === ALL)) this.settings.showsMemory = index !== ALL;
    const before = this.panel?.active;
    const [window, whole] = before === undefined || before.isWhole ? [null, 1] : [before.window, before.whole.to];
    this.panel?.destroy();
    this.shown = index;
    this.sections.forEach((section, place) => { section.hidden = place !== index; });
    this.compare.hidden = index !== ALL;
    this.whatIfButton.disabled = index === ALL || this.report.timelines[index].head.kind !== "plan";
    this.tabs.forEach((tab, place) => tab.setAttribute("aria-current", String(place === index || (index === ALL && place === this.tabs.length - 1))));
    this.isFollowing = true;
    const own = { colours: this.colours, settings: this.settings, changed: () => this.link() };
    if (index === ALL) this.panel = new Panel(this.besides(), this.report, { ...own, timelines: this.beside, ownAxes: this.ownAxes });
    else this.panel = new Panel(this.sections[index].querySelector<HTMLElement>(".slot")!, this.report, { ...own, timelines: [index] });
    if (window !== null) {
      const share = this.ownAxes && index === ALL ? this.panel.active.whole.to / whole : 1;
      this.panel.active.show({ from: share * window.from, to: share * window.to });
    }
    this.isFollowing = false;
    this.link();
  }

  private toggleWhatIf(): void {
    if (this.whatIf === null) {
      this.openWhatIf(UNCHANGED)?.focus();
    } else {
      this.show(this.shown);
      this.whatIfButton.focus();
    }
  }

  /** Let the plan that is shown be changed, from what a code says on; or say why it cannot be. */
  private openWhatIf(code: string): WhatIf | null {
    this.closeWhatIf();
    if (this.shown === ALL) return null;
    const { head, timelines } = this.report;
    const { shown } = this;
    const original = timelines[shown];
    const section = this.sections[shown];
    const file = original.head.plan === null ? "" : textOf(document, `evenflow-plan-${original.head.plan}`);
    const show = (timeline: Timeline): void => {
      const isSameOrder = timeline.actions === timelines[shown].actions;
      timelines[shown] = timeline;
      this.panel.refresh(isSameOrder);
    };
    const whyNot = WhatIf.whyNot(original);
    const mode = whyNot ?? WhatIf.open({ head, timeline: original, file, fileName: fileName(head.title), show, close: () => this.toggleWhatIf() }, code);
    if (typeof mode === "string") {
      section.querySelector(".slot")!.before(el("p", { class: "note refused", role: "status" }, mode));
      return null;
    }
    this.whatIf = { mode, original };
    section.classList.add("changing");
    section.querySelector(".slot")!.before(mode.element);
    this.whatIfButton.setAttribute("aria-pressed", "true");
    this.link();
    return mode;
  }

  private closeWhatIf(): void {
    for (const note of this.main.querySelectorAll(".refused")) note.remove();
    if (this.whatIf === null) return;
    this.report.timelines[this.shown] = this.whatIf.original;
    this.whatIf.mode.element.remove();
    this.sections[this.shown].classList.remove("changing");
    this.whatIfButton.setAttribute("aria-pressed", "false");
    this.whatIf = null;
  }

  /** Fill the part of the page that compares; returns where the timelines go. */
  private besides(): HTMLElement {
    const { head, timelines } = this.report;
    const shown = this.beside.map((index) => timelines[index]);
    const place = el("div");
    /** Show them anew, with the focus where it was. */
    const again = (key: string): void => {
      this.show(ALL);
      this.compare.querySelector<HTMLElement>(`[data-key="${key}"] :is(input, select)`)?.focus();
    };
    const picks = timelines.map(({ head: one }, index) => {
      const box = el("input", { type: "checkbox", checked: this.beside.includes(index) });
      box.disabled = box.checked ? this.beside.length <= 2 : this.beside.length >= MOST_BESIDE;
      box.addEventListener("change", () => {
        this.beside = [...timelines.keys()].filter((each) => (each === index ? box.checked : this.beside.includes(each)));
        again(`pick-${index}`);
      });
      return el("label", { class: "pick", "data-key": `pick-${index}` }, box, one.name);
    });
    const axes = choice(say("time_axis"), [["one", say("one_axis")], ["own", say("own_axes")]], this.ownAxes ? "own" : "one", (value) => {
      this.ownAxes = value === "own";
      again("axes");
    });
    axes.dataset.key = "axes";
    const tools = el("div", { class: "tools" }, ...(timelines.length > 2 ? picks : []), axes);
    const open = (timeline: (typeof timelines)[number]): void => this.show(timelines.indexOf(timeline));
    this.compare.replaceChildren(el("h2", { class: "spoken" }, say("beside")), stepTable(head, shown, open), tools, place, ...differencesOf(head, shown));
    return place;
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const undoes = (event.ctrlKey || event.metaKey) && /^[zy]$/i.test(event.key) && target.closest("input, textarea") === null;
    if (undoes && this.whatIf !== null) {
      this.whatIf.mode.step(event.shiftKey || event.key.toLowerCase() === "y" ? 1 : -1);
      event.preventDefault();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (target.closest("input, select, textarea") !== null) return;
    if (/^(Arrow|Home)/.test(event.key) && target.closest(".dock, .scroll, .rank-list") !== null) return; // which scroll
    if (event.key === "Enter" && target.closest("button, summary, a") !== null) return;
    const count = this.report.timelines.length;
    const done = (() => {
      if (event.key === "?") this.help.showModal();
      else if (event.key === "/") this.panel.search.focus();
      else if (event.key === "i" || event.key === "I") this.toggleWhatIf();
      else if (count > 1 && /^[1-9]$/.test(event.key) && Number(event.key) <= count) this.show(Number(event.key) - 1);
      else if (count > 1 && event.key === "]") this.show(this.shown + 1 >= count ? ALL : this.shown + 1);
      else if (count > 1 && event.key === "[") this.show(this.shown === ALL ? count - 1 : this.shown - 1);
      else return this.panel.active.press(event);
      return true;
    })();
    if (done) event.preventDefault();
  }

  /** A dot of the memory curve leads to the timeline of its plan, where it is seen. */
  private followed(event: MouseEvent): void {
    const link = (event.target as Element).closest(".curve a");
    if (link === null) return;
    event.preventDefault();
    this.goTo(parsePlace(link.getAttribute("href") ?? ""));
    this.link();
    this.panel.element.scrollIntoView();
    this.panel.active.focus();
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
    this.panel.setColours(this.colours);
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
    const { active: viewer } = this.panel;
    const { settings } = this;
    const { rows } = settings;
    const { data: timeline } = viewer;
    const isBeside = this.shown === ALL;
    const place: Place = {};
    if (this.report.timelines.length > 1 && (!isBeside || viewer.selected >= 0 || viewer.point !== null || viewer.range !== null)) place.plan = viewer.timeline;
    if (this.whatIf !== null) place.whatIf = this.whatIf.mode.code;
    if (isBeside) place.beside = this.beside;
    if (isBeside && this.ownAxes) place.ownAxes = true;
    if (viewer.selected >= 0) {
      place.rank = timeline.rank(viewer.selected);
      place.microbatch = timeline.microbatch(viewer.selected);
      if (timeline.head.chunks > 1) place.chunk = timeline.chunk(viewer.selected);
      place.op = timeline.letter(viewer.selected);
    } else if (viewer.point !== null) {
      place.rank = viewer.point.rank;
      place.at = Math.round(viewer.point.time);
    }
    if (viewer.range !== null) place.range = viewer.range;
    if (!viewer.isWhole) {
      place.time = (viewer.window.from + viewer.window.to) / 2;
      place.span = viewer.window.to - viewer.window.from;
    }
    if (rows.pinned.length > 0) place.pinned = rows.pinned;
    if (rows.folded.length > 0) place.folded = rows.folded;
    if (rows.order.length > 0) place.order = rows.order;
    if (rows.zoom !== 1) place.rows = rows.zoom;
    if (!settings.showsCauses) place.causes = false;
    if (settings.showsPath) place.path = true;
    if (settings.showsMemory === isBeside) place.memory = settings.showsMemory;
    return place;
  }

  private goTo(place: Place): void {
    const { timelines } = this.report;
    const exists = (index: number | undefined): index is number => index !== undefined && index < timelines.length;
    const beside = (place.beside ?? []).filter(exists).slice(0, MOST_BESIDE);
    const ranks = Math.max(...timelines.map((each) => each.head.ranks));
    const known = (list: number[] | undefined): number[] => (list ?? []).filter((rank) => rank < ranks);
    const shown = beside.length > 1 ? ALL : exists(place.plan) ? place.plan : this.shown;
    Object.assign(this.settings, {
      rows: { pinned: known(place.pinned), folded: known(place.folded), order: known(place.order), zoom: place.rows ?? 1 },
      showsCauses: place.causes ?? true,
      showsPath: place.path ?? false,
      showsMemory: place.memory ?? shown !== ALL,
    });
    if (beside.length > 1) [this.beside, this.ownAxes] = [beside, place.ownAxes ?? false];
    this.shown = shown;
    this.show(shown);
    this.isFollowing = true;
    if (place.whatIf !== undefined) this.openWhatIf(place.whatIf);
    const viewer = this.panel.viewers.find((each) => each.timeline === place.plan) ?? this.panel.viewers[0];
    const { data: timeline } = viewer;
    if (place.time !== undefined) {
      const span = place.span ?? Math.min(timeline.head.makespan_ns / 5, viewer.window.to - viewer.window.from);
      viewer.show({ from: place.time - span / 2, to: place.time + span / 2 });
    }
    if (place.range !== undefined && place.range.to <= timeline.head.makespan_ns) viewer.range = place.range;
    if (place.at !== undefined && place.rank !== undefined && place.rank < timeline.head.ranks && place.at <= timeline.head.makespan_ns) {
      viewer.choose({ rank: place.rank, time: place.at });
    } else if (place.at === undefined && (place.rank !== undefined || place.microbatch !== undefined)) {
      const query: Query = {};
      for (const key of ["rank", "microbatch", "chunk", "op"] as const) if (place[key] !== undefined) Object.assign(query, { [key]: place[key] });
      const found = matches(timeline, query);
      const { time } = place;
      const nearest = time === undefined ? found[0] : found.toSorted((one, other) => Math.abs(timeline.start[one] - time) - Math.abs(timeline.start[other] - time))[0];
      if (nearest !== undefined) viewer.select(nearest, true);
    }
    this.isFollowing = false;
  }

  private downloadTrace(): void {
    const timelines = this.shown === ALL ? this.beside.map((each) => this.report.timelines[each]) : [this.report.timelines[this.shown]];
    download(`${fileName(this.report.head.title)}.trace.json`, chromeTrace(this.report.head, timelines), "application/json");
  }

  private downloadPlan(): void {
    if (this.whatIf !== null) {
      this.whatIf.mode.save();
      return;
    }
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
