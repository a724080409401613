/** One timeline that people can look into: zoom, pan, hover, select, search. */
import { card, encoderCard } from "./card";
import type { Colours } from "./colours";
import type { Report, Timeline } from "./data";
import { PixelRows, RectangleRows } from "./density";
import { type Layout, layoutOf, rankAt, type Shape } from "./layout";
import type { Pen } from "./pen";
import type { Settings } from "./panel";
import { type Marks, type Over, Picture } from "./picture";
import { Pointers } from "./pointers";
import type { Scale, Span } from "./scale";
import { matches, parseQuery } from "./search";
import { say } from "./words";

/** Nanoseconds that fill the picture at least. */
export const CLOSEST = 20;
const STEP = 1.25;
const PAN = 0.12;

export interface ViewerOptions {
  timeline: number;
  colours: Colours;
  shape: Shape;
  /** Where the time axis ends, ns; by default with the step. */
  extent?: number;
  /** Of memory in all timelines that stand beside each other. */
  mostBytes?: number;
}

/** A time on a rank. */
export interface Point {
  rank: number;
  time: number;
}

export class Viewer {
  readonly element = document.createElement("div");
  readonly timeline: number;
  /** Called when another part of the step is seen. */
  onWindow: ((window: Span) => void) | null = null;
  /** Called when something else is chosen: an action, a point, a range. */
  onChoice: (() => void) | null = null;
  readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d", { alpha: false })!;
  private readonly pixels = new PixelRows(this.context);
  /** What follows the pointer is drawn on a canvas of its own: the picture itself stays as it is. */
  private readonly above = document.createElement("canvas");
  private readonly hover = document.createElement("div");
  private readonly spoken = document.createElement("p");
  private readonly observer: ResizeObserver;
  private readonly mostBytes: number | undefined;
  private extent: number;
  private colours: Colours;
  private shape: Shape;
  layout!: Layout;
  private picture!: Picture;
  private span: Span;
  private frame = 0;
  private isStale = false;
  private found: { query: string; actions: number[]; place: number } = { query: "", actions: [], place: -1 };
  private marks: Marks = { selected: -1, chain: [], critical: [], showsCauses: true };
  private over: Over = { hovered: -1, range: null, time: null };
  private chosenPoint: Point | null = null;

  constructor(
    place: HTMLElement,
    readonly report: Report,
    options: ViewerOptions,
  ) {
    this.timeline = options.timeline;
    this.colours = options.colours;
    this.mostBytes = options.mostBytes;
    this.shape = options.shape;
    this.extent = options.extent ?? Math.max(this.data.head.makespan_ns, 1);
    this.span = this.whole;
    this.element.className = "viewer";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", say("viewer_label", { name: this.data.head.name }));
    this.above.className = "above";
    this.above.setAttribute("aria-hidden", "true");
    this.hover.className = "card";
    this.hover.hidden = true;
    this.spoken.className = "spoken";
    this.spoken.setAttribute("aria-live", "polite");
    this.element.append(this.canvas, this.above, this.hover, this.spoken);
    place.append(this.element);
    new Pointers(this);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.resize();
  }

  get data(): Timeline {
    return this.report.timelines[this.timeline];
  }

  get whole(): Span {
    return { from: 0, to: this.extent };
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
    return this.span.from <= 0 && this.span.to >= this.extent;
  }

  get selected(): number {
    return this.marks.selected;
  }

  /** A time on a rank that is chosen: that of the selected action is where it begins. */
  get point(): Point | null {
    return this.chosenPoint;
  }

  get range(): Span | null {
    return this.over.range;
  }

  /** Whether the time axis belongs to the focus or the pointer: then keys are for this viewer. */
  get isActive(): boolean {
    return document.activeElement === this.canvas || this.canvas.matches(":hover");
  }

  focus(): void {
    this.canvas.focus({ preventScroll: true });
  }

  select(action: number | null, reveal = false): void {
    this.mark(action ?? -1);
    if (reveal && action !== null) this.reveal(action);
    this.onChoice?.();
  }

  /** Mark an action as selected, -1 for none, and tell nobody. */
  mark(action: number): void {
    this.marks.selected = action;
    this.marks.chain = action < 0 ? [] : this.data.chain(action);
    this.chosenPoint = action < 0 ? null : { rank: this.data.rank(action), time: this.data.start[action] };
    this.over.time = null;
    if (action >= 0) this.spoken.textContent = card(this.report.head, this.data, action).map((row) => row.join(" ")).join("; ");
    this.redraw();
  }

  /** Choose a time on a rank: what runs or waits there, and what it holds. */
  choose(point: Point): void {
    this.mark(-1);
    this.chosenPoint = point;
    this.over.time = point.time;
    this.onChoice?.();
  }

  /** Choose nothing. */
  clear(): void {
    this.over.range = null;
    this.select(null);
  }

  set range(range: Span | null) {
    this.over.range = range;
    this.redrawOver();
    this.onChoice?.();
  }

  /** Show a range while it is drawn. */
  sketch(range: Span | null): void {
    this.over.range = range;
    this.redrawOver();
  }

  /** Scroll and zoom so that an action is seen, with what is around it. */
  reveal(action: number): void {
    this.scrollTo(this.data.rank(action));
    const { start, end } = this.data;
    const [middle, length] = [(start[action] + end[action]) / 2, end[action] - start[action]];
    const width = this.span.to - this.span.from;
    const tooSmall = length / width < 0.004;
    const outside = start[action] < this.span.from || end[action] > this.span.to;
    if (!tooSmall && !outside) return;
    const half = (tooSmall ? Math.min(width, Math.max(20 * length, CLOSEST)) : width) / 2;
    this.show({ from: middle - half, to: middle + half });
  }

  /** Scroll the page so that the row of a rank is seen. */
  private scrollTo(rank: number): void {
    const top = this.canvas.getBoundingClientRect().top + this.layout.rows.tops[rank];
    const room = window.innerHeight * 0.55;
    if (top < 60 || top + this.layout.rows.pitch > room) window.scrollBy({ top: top - room / 2 });
  }

  setColours(colours: Colours): void {
    this.colours = colours;
    this.resize();
  }

  set({ rows, showsMemory, showsCauses, showsPath }: Settings): void {
    this.shape = { ...this.shape, rows, showsMemory };
    this.marks.showsCauses = showsCauses;
    this.marks.critical = showsPath ? this.data.criticalPath() : [];
    const isEmpty = this.lay(this.layout.width);
    this.redraw();
    if (isEmpty) this.paint();
  }

  /** Show what its timeline has become; `isSameOrder` says whether actions are still those of the same numbers. */
  refresh(isSameOrder: boolean): void {
    const { isWhole } = this;
    this.extent = Math.max(this.data.head.makespan_ns, 1);
    this.found = { query: "", actions: [], place: -1 };
    this.over = { hovered: -1, range: null, time: null };
    this.hover.hidden = true;
    this.mark(isSameOrder ? this.selected : -1);
    this.show(isWhole ? this.whole : this.span);
  }

  get showsCauses(): boolean {
    return this.marks.showsCauses;
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

  /** Show a span, kept within the axis. */
  show(span: Span): void {
    const width = Math.min(Math.max(span.to - span.from, CLOSEST), this.extent);
    const from = Math.min(Math.max(span.from, 0), this.extent - width);
    this.span = { from, to: from + width };
    this.redraw();
    this.onWindow?.(this.span);
  }

  /** Draw the same picture elsewhere; returns its height. */
  draw(pen: Pen, width: number): number {
    const layout = layoutOf(this.data, width, this.shape);
    const picture = new Picture(this.data, layout, this.colours, this.report.head.unit, this.mostBytes);
    picture.draw({ pen, density: new RectangleRows(pen) }, this.span, this.marks);
    return layout.height;
  }

  height(width: number): number {
    return layoutOf(this.data, width, this.shape).height;
  }

  resize(): void {
    this.lay(Math.max(this.element.clientWidth, 240));
    this.isStale = true;
    this.paint(); // now: nobody waits for a next frame before a page is printed
  }

  /** Lay everything out anew on so many pixels; returns whether canvases have another size, and with it lost what was on them. */
  private lay(width: number): boolean {
    const ratio = window.devicePixelRatio || 1;
    this.layout = layoutOf(this.data, width, this.shape);
    this.picture = new Picture(this.data, this.layout, this.colours, this.report.head.unit, this.mostBytes);
    const [columns, lines] = [Math.round(width * ratio), Math.round(this.layout.height * ratio)];
    if (this.canvas.width === columns && this.canvas.height === lines) return false;
    for (const canvas of [this.canvas, this.above]) {
      [canvas.width, canvas.height] = [columns, lines];
      canvas.style.width = `${width}px`;
      canvas.style.height = `${this.layout.height}px`;
      canvas.getContext("2d")!.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    return true;
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
        if (selected < 0) this.select(this.data.firstEndingAfter(this.layout.rows.order[0], this.span.from), true);
        else this.reveal(selected);
        return true;
      case "Escape":
        if (selected < 0 && this.chosenPoint === null && this.range === null) return false;
        this.clear();
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

  /** Show what is around a place in the overview. */
  centre(x: number): void {
    const time = this.picture.scale({ from: 0, to: this.data.head.makespan_ns }).time(x);
    const half = (this.span.to - this.span.from) / 2;
    this.show({ from: time - half, to: time + half });
  }

  get scale(): Scale {
    return this.picture.scale(this.span);
  }

  /** The action under the pointer; null for none. Where actions are narrower than a pixel, the nearest. */
  under(event: MouseEvent): number | null {
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

  /** What is under the pointer, a rank and a time; null outside of all rows. */
  pointUnder(event: MouseEvent): Point | null {
    const { rows, memory, left, right } = this.layout;
    if (event.offsetX < left || event.offsetX > right) return null;
    const above = rankAt(rows, event.offsetY);
    const rank = above < 0 && memory !== null ? rankAt(memory, event.offsetY) : above;
    const time = this.scale.time(event.offsetX);
    return rank < 0 || time < 0 || time > this.data.head.makespan_ns ? null : { rank, time };
  }

  /** Tell of what is under the pointer. */
  hoverAt(event: PointerEvent): void {
    const action = this.under(event) ?? -1;
    const part = action < 0 ? this.encoderUnder(event) : null;
    if (action !== this.over.hovered) {
      this.over.hovered = action;
      this.redrawOver();
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

  /** The pointer is gone, or moves the picture. */
  leave(): void {
    this.over.hovered = -1;
    this.hover.hidden = true;
    this.redrawOver();
  }

  private redraw(): void {
    this.isStale = true;
    this.redrawOver();
  }

  private redrawOver(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.isStale) this.picture.draw({ pen: this.context, density: this.pixels }, this.span, this.marks);
    this.isStale = false;
    const over = this.above.getContext("2d")!;
    over.clearRect(0, 0, this.layout.width, this.layout.height);
    this.picture.drawOver(over, this.span, this.over);
  }
}
