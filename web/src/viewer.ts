/** One timeline that people can look into: zoom, pan, hover, select, search. */
import { card, encoderCard } from "./card";
import type { Colours } from "./colours";
import type { Report, Timeline } from "./data";
import { PixelRows, RectangleRows } from "./density";
import { type Layout, layoutOf, rankAt } from "./layout";
import type { Pen } from "./pen";
import { type Marks, Picture } from "./picture";
import { Scale, type Span } from "./scale";
import { matches, parseQuery } from "./search";
import { say } from "./words";

/** Nanoseconds that fill the picture at least. */
const CLOSEST = 20;
const STEP = 1.25;
const PAN = 0.12;

export interface ViewerOptions {
  timeline: number;
  colours: Colours;
  /** Of memory in all timelines that stand beside each other. */
  mostBytes?: number;
  showsCauses?: boolean;
}

export class Viewer {
  readonly element: HTMLElement;
  onWindow: ((window: Span) => void) | null = null;
  onSelect: ((action: number) => void) | null = null;
  private readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d", { alpha: false })!;
  private readonly pixels = new PixelRows(this.context);
  private readonly hover = document.createElement("div");
  private readonly spoken = document.createElement("p");
  private readonly observer: ResizeObserver;
  private timelineIndex: number;
  private colours: Colours;
  private mostBytes: number | undefined;
  private layout!: Layout;
  private picture!: Picture;
  private span: Span;
  private frame = 0;
  private found: { query: string; actions: number[]; place: number } = { query: "", actions: [], place: -1 };
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private drag: { x: number; span: Span; moved: boolean; overview: boolean; range: number | null } | null = null;
  private range: Span | null = null;
  private marks: Marks = { selected: -1, hovered: -1, chain: [], critical: [], showsCauses: true };

  constructor(
    place: HTMLElement,
    readonly report: Report,
    options: ViewerOptions,
  ) {
    this.timelineIndex = options.timeline;
    this.colours = options.colours;
    this.mostBytes = options.mostBytes;
    this.marks.showsCauses = options.showsCauses ?? true;
    this.span = this.whole;
    this.element = document.createElement("div");
    this.element.className = "viewer";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", say("viewer_label", { name: this.data.head.name }));
    this.hover.className = "card";
    this.hover.hidden = true;
    this.spoken.className = "spoken";
    this.spoken.setAttribute("aria-live", "polite");
    this.element.append(this.canvas, this.hover, this.spoken);
    place.append(this.element);
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.resize();
  }

  private get data(): Timeline {
    return this.report.timelines[this.timelineIndex];
  }

  private get whole(): Span {
    return { from: 0, to: Math.max(this.report.timelines[this.timelineIndex].head.makespan_ns, 1) };
  }

  get timeline(): number {
    return this.timelineIndex;
  }

  set timeline(index: number) {
    const wasWhole = this.isWhole;
    this.timelineIndex = index;
    const critical = this.marks.critical.length > 0;
    this.marks = { ...this.marks, selected: -1, hovered: -1, chain: [], critical: critical ? this.data.criticalPath() : [] };
    this.found = { query: "", actions: [], place: -1 };
    this.canvas.setAttribute("aria-label", say("viewer_label", { name: this.data.head.name }));
    if (wasWhole) this.span = this.whole;
    this.resize();
  }

  /** What is seen, ns. */
  get window(): Span {
    return this.span;
  }

  set window(span: Span) {
    this.span = span;
    this.redraw();
  }

  get isWhole(): boolean {
    return this.span.from <= 0 && this.span.to >= this.data.head.makespan_ns;
  }

  get selected(): number {
    return this.marks.selected;
  }

  /** Whether the time axis belongs to the focus or the pointer: then keys are for this viewer. */
  get isActive(): boolean {
    return document.activeElement === this.canvas || this.canvas.matches(":hover");
  }

  focus(): void {
    this.canvas.focus({ preventScroll: true });
  }

  select(action: number | null, reveal = false): void {
    const selected = action ?? -1;
    this.marks.selected = selected;
    this.marks.chain = selected < 0 ? [] : this.data.chain(selected);
    if (selected >= 0) {
      this.spoken.textContent = card(this.report.head, this.data, selected).map((row) => row.join(" ")).join("; ");
      if (reveal) this.reveal(selected);
    }
    this.redraw();
    this.onSelect?.(selected);
  }

  /** Scroll and zoom so that an action is seen, with what is around it. */
  reveal(action: number): void {
    const { start, end } = this.data;
    const [middle, length] = [(start[action] + end[action]) / 2, end[action] - start[action]];
    const width = this.span.to - this.span.from;
    const tooSmall = length / width < 0.004;
    const outside = start[action] < this.span.from || end[action] > this.span.to;
    if (!tooSmall && !outside) return;
    const half = (tooSmall ? Math.min(width, Math.max(20 * length, CLOSEST)) : width) / 2;
    this.show({ from: middle - half, to: middle + half });
  }

  setColours(colours: Colours): void {
    this.colours = colours;
    this.resize();
  }

  setMostBytes(bytes: number | undefined): void {
    this.mostBytes = bytes;
    this.resize();
  }

  set showsCauses(shows: boolean) {
    this.marks.showsCauses = shows;
    this.redraw();
  }

  get showsCauses(): boolean {
    return this.marks.showsCauses;
  }

  set showsCritical(shows: boolean) {
    this.marks.critical = shows ? this.data.criticalPath() : [];
    this.redraw();
  }

  get showsCritical(): boolean {
    return this.marks.critical.length > 0;
  }

  /** Select the next action that a query asks for; returns which of how many, or null where it is not understood. */
  find(query: string, step: 1 | -1 = 1): { number: number; count: number } | null {
    if (query !== this.found.query) {
      const asked = parseQuery(query, this.report.head.rank_word === "stage");
      if (asked === null) return null;
      this.found = { query, actions: matches(this.data, asked), place: step === 1 ? -1 : 0 };
    }
    const count = this.found.actions.length;
    if (count === 0) return { number: 0, count };
    this.found.place = (this.found.place + step + count) % count;
    this.select(this.found.actions[this.found.place], true);
    return { number: this.found.place + 1, count };
  }

  /** See the whole step. */
  fit(): void {
    this.show(this.whole);
  }

  zoom(factor: number, at?: number): void {
    const { from, to } = this.span;
    const centre = at ?? (this.marks.selected >= 0 && this.isSeen(this.marks.selected) ? this.middle(this.marks.selected) : (from + to) / 2);
    this.show({ from: centre - (centre - from) / factor, to: centre + (to - centre) / factor });
  }

  pan(share: number): void {
    const move = share * (this.span.to - this.span.from);
    this.show({ from: this.span.from + move, to: this.span.to + move });
  }

  /** Show a span, kept within the step. */
  show(span: Span): void {
    const end = Math.max(...this.report.timelines.map((each) => each.head.makespan_ns), 1);
    const width = Math.min(Math.max(span.to - span.from, CLOSEST), end);
    const from = Math.min(Math.max(span.from, 0), end - width);
    this.span = { from, to: from + width };
    this.redraw();
    this.onWindow?.(this.span);
  }

  /** Draw the same picture elsewhere; returns its height. */
  draw(pen: Pen, width: number): number {
    const layout = layoutOf(this.data, width);
    const picture = new Picture(this.data, layout, this.colours, this.report.head.unit, this.mostBytes);
    picture.draw({ pen, density: new RectangleRows(pen) }, this.span, { ...this.marks, hovered: -1 });
    return layout.height;
  }

  height(width: number): number {
    return layoutOf(this.data, width).height;
  }

  resize(): void {
    const width = Math.max(this.element.clientWidth, 240);
    const ratio = window.devicePixelRatio || 1;
    this.layout = layoutOf(this.data, width);
    this.picture = new Picture(this.data, this.layout, this.colours, this.report.head.unit, this.mostBytes);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.layout.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.layout.height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paint();
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.element.remove();
  }

  /** Do what a key asks for; returns whether it asks for anything here. */
  press(event: KeyboardEvent): boolean {
    const far = event.shiftKey ? 4 : 1;
    const selected = this.marks.selected;
    switch (event.key) {
      case "w": case "W": case "+": case "=":
        this.zoom(STEP ** far);
        return true;
      case "s": case "S": case "-": case "_":
        this.zoom(1 / STEP ** far);
        return true;
      case "a": case "A":
        this.pan(-PAN * far);
        return true;
      case "d": case "D":
        this.pan(PAN * far);
        return true;
      case "0": case "Home":
        this.fit();
        return true;
      case "ArrowLeft":
        this.go(selected < 0 ? null : this.data.before(selected), -PAN * far);
        return true;
      case "ArrowRight":
        this.go(selected < 0 ? null : this.data.behind(selected), PAN * far);
        return true;
      case "ArrowUp":
        if (selected < 0) return false;
        this.go(this.data.input[selected], 0);
        return true;
      case "ArrowDown":
        if (selected < 0) return false;
        this.go(this.data.consumer(selected), 0);
        return true;
      case "Enter":
        if (selected < 0) this.select(this.data.firstEndingAfter(0, this.span.from), true);
        else this.reveal(selected);
        return true;
      case "Escape":
        if (selected < 0) return false;
        this.select(null);
        return true;
      default:
        return false;
    }
  }

  /** Select an action that is there; without a selection, pan. */
  private go(action: number | null, share: number): void {
    if (action === null) this.pan(share);
    else if (action >= 0) this.select(action, true);
  }

  private isSeen(action: number): boolean {
    return this.data.end[action] > this.span.from && this.data.start[action] < this.span.to;
  }

  private middle(action: number): number {
    return (this.data.start[action] + this.data.end[action]) / 2;
  }

  private get scale(): Scale {
    return this.picture.scale(this.span);
  }

  private listen(): void {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", (event) => this.up(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("dblclick", (event) => this.double(event));
  }

  private wheel(event: WheelEvent): void {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      this.pan((sideways / this.scale.width) * 1.5);
      return;
    }
    if (event.deltaY > 0 && this.isWhole && !event.ctrlKey) return; // nothing to zoom out of: the page scrolls
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    this.zoom(Math.exp((-event.deltaY * lines) / 420), this.scale.time(event.offsetX));
  }

  private down(event: PointerEvent): void {
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.canvas.setPointerCapture(event.pointerId);
    if (event.button !== 0) return;
    const { overview } = this.layout;
    const inOverview = event.offsetY <= overview.top + overview.height;
    this.drag = {
      x: event.offsetX,
      span: this.span,
      moved: false,
      overview: inOverview,
      range: event.shiftKey && !inOverview ? this.scale.time(event.offsetX) : null,
    };
    if (inOverview) this.centre(event.offsetX);
  }

  private move(event: PointerEvent): void {
    const last = this.pointers.get(event.pointerId);
    if (this.pointers.size === 2 && last !== undefined) {
      this.pinch(event);
      return;
    }
    if (last !== undefined) this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (this.drag === null) {
      this.point(event);
      return;
    }
    const moved = event.offsetX - this.drag.x;
    if (Math.abs(moved) > 3) this.drag.moved = true;
    if (this.drag.overview) {
      this.centre(event.offsetX);
    } else if (this.drag.range !== null) {
      const time = this.scale.time(event.offsetX);
      this.range = { from: Math.min(this.drag.range, time), to: Math.max(this.drag.range, time) };
      this.redraw();
    } else if (this.drag.moved) {
      const { from, to } = this.drag.span;
      const by = (moved / this.scale.width) * (to - from);
      this.hover.hidden = true;
      this.show({ from: from - by, to: to - by });
    }
  }

  /** Two fingers: what is under them stays under them. */
  private pinch(event: PointerEvent): void {
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)![1];
    const before = this.pointers.get(event.pointerId)!;
    const [was, is] = [Math.abs(before.x - other.x), Math.abs(event.offsetX - other.x)];
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (this.drag !== null) this.drag.moved = true;
    if (was > 5 && is > 5) this.zoom(is / was, this.scale.time((event.offsetX + other.x) / 2));
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    const { drag, range } = this;
    this.drag = null;
    this.range = null;
    if (drag === null) return;
    if (range !== null && range.to - range.from > CLOSEST && drag.moved) this.show(range);
    else if (!drag.moved && !drag.overview && event.type === "pointerup") this.select(this.under(event));
    else this.redraw();
  }

  private leave(): void {
    if (this.marks.hovered >= 0) {
      this.marks.hovered = -1;
      this.redraw();
    }
    this.hover.hidden = true;
  }

  private double(event: MouseEvent): void {
    const action = this.under(event);
    if (action === null) {
      this.fit();
      return;
    }
    const length = this.data.end[action] - this.data.start[action];
    this.show({ from: this.data.start[action] - 4 * length, to: this.data.end[action] + 4 * length });
  }

  private centre(x: number): void {
    const time = this.picture.scale(this.whole).time(x);
    const half = (this.span.to - this.span.from) / 2;
    this.show({ from: time - half, to: time + half });
  }

  /** The action under the pointer; null for none. Where actions are narrower than a pixel, the nearest. */
  private under(event: MouseEvent): number | null {
    const rank = rankAt(this.layout.rows, event.offsetY);
    const memory = this.layout.memory === null ? -1 : rankAt(this.layout.memory, event.offsetY);
    if (rank < 0 || memory >= 0 || event.offsetX < this.layout.left || event.offsetX > this.layout.right) return null;
    const time = this.scale.time(event.offsetX);
    const action = this.data.at(rank, time);
    if (action >= 0) return action;
    const next = this.data.firstEndingAfter(rank, time);
    const near = 2 / this.scale.perNs;
    if (next < this.data.head.rank_starts[rank + 1] && this.data.start[next] - time < near) return next;
    const before = next - 1;
    return before >= this.data.head.rank_starts[rank] && time - this.data.end[before] < near ? before : null;
  }

  private point(event: PointerEvent): void {
    const action = this.under(event) ?? -1;
    const part = action < 0 ? this.encoderUnder(event) : null;
    if (action !== this.marks.hovered) {
      this.marks.hovered = action;
      this.redraw();
      if (action >= 0) this.fillCard(card(this.report.head, this.data, action));
    }
    if (part !== null) this.fillCard(encoderCard(this.data, ...part));
    this.hover.hidden = action < 0 && part === null;
    this.canvas.style.cursor = action < 0 ? "" : "pointer";
    if (!this.hover.hidden) this.placeCard(event.offsetX, event.offsetY);
  }

  /** What encoders do under the pointer, as a direction and a place. */
  private encoderUnder(event: MouseEvent): [number, number] | null {
    const rank = rankAt(this.layout.rows, event.offsetY);
    const isInside = rank >= 0 && event.offsetX >= this.layout.left && event.offsetX <= this.layout.right;
    return isInside ? this.data.encoderAt(rank, this.scale.time(event.offsetX)) : null;
  }

  private fillCard(content: [string, string][]): void {
    const rows = content.map(([name, value], place) => {
      const row = document.createElement(place === 0 ? "h4" : "p");
      if (place === 0) {
        row.textContent = value;
        return row;
      }
      const [label, text] = [document.createElement("span"), document.createElement("span")];
      [label.textContent, text.textContent] = [name, value];
      row.append(label, text);
      return row;
    });
    this.hover.replaceChildren(...rows);
  }

  private placeCard(x: number, y: number): void {
    const { clientWidth, clientHeight } = this.element;
    const { offsetWidth: width, offsetHeight: height } = this.hover;
    const left = x + 16 + width > clientWidth ? Math.max(0, x - width - 12) : x + 16;
    const top = y + 16 + height > clientHeight ? Math.max(0, y - height - 12) : y + 16;
    this.hover.style.left = `${left}px`;
    this.hover.style.top = `${top}px`;
  }

  private redraw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.picture.draw({ pen: this.context, density: this.pixels }, this.span, this.marks);
    if (this.range === null) return;
    const [from, to] = [this.scale.x(this.range.from), this.scale.x(this.range.to)];
    this.context.globalAlpha = 0.18;
    this.context.fillStyle = this.colours.accent;
    this.context.fillRect(from, this.layout.axis.top, to - from, this.layout.height - this.layout.axis.top);
    this.context.globalAlpha = 1;
  }
}
