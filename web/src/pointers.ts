/** Mouse, pen and fingers on a timeline. */
import type { Span } from "./scale";
import { CLOSEST, type Viewer } from "./viewer";

interface Drag {
  x: number;
  span: Span;
  moved: boolean;
  overview: boolean;
  /** Where a range begins, ns; null where the picture is moved. */
  range: number | null;
}

export class Pointers {
  private readonly down = new Map<number, { x: number; y: number }>();
  private drag: Drag | null = null;

  constructor(private readonly viewer: Viewer) {
    const { canvas } = viewer;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.end(event));
    canvas.addEventListener("pointercancel", (event) => this.end(event));
    canvas.addEventListener("pointerleave", () => viewer.leave());
    canvas.addEventListener("dblclick", (event) => this.double(event));
  }

  private wheel(event: WheelEvent): void {
    const { viewer } = this;
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      event.preventDefault();
      viewer.pan((sideways / viewer.scale.width) * 1.5);
      return;
    }
    if (event.deltaY > 0 && viewer.isWhole && !event.ctrlKey) return; // nothing to zoom out of: the page scrolls
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    viewer.zoom(Math.exp((-event.deltaY * lines) / 420), viewer.scale.time(event.offsetX));
  }

  private begin(event: PointerEvent): void {
    const { viewer } = this;
    this.down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    viewer.canvas.setPointerCapture(event.pointerId);
    if (event.button !== 0) return;
    const { overview } = viewer.layout;
    const inOverview = overview.height > 0 && event.offsetY <= overview.top + overview.height;
    const range = event.shiftKey && !inOverview ? viewer.scale.time(event.offsetX) : null;
    this.drag = { x: event.offsetX, span: viewer.window, moved: false, overview: inOverview, range };
    if (inOverview) viewer.centre(event.offsetX);
  }

  private move(event: PointerEvent): void {
    const { viewer, drag } = this;
    const last = this.down.get(event.pointerId);
    if (this.down.size === 2 && last !== undefined) {
      this.pinch(event);
      return;
    }
    if (last !== undefined) this.down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (drag === null) {
      viewer.hoverAt(event);
      return;
    }
    const moved = event.offsetX - drag.x;
    if (Math.abs(moved) > 3) drag.moved = true;
    if (drag.overview) {
      viewer.centre(event.offsetX);
    } else if (drag.range !== null) {
      viewer.sketch(this.ranged(drag.range, event));
    } else if (drag.moved) {
      const { from, to } = drag.span;
      const by = (moved / viewer.scale.width) * (to - from);
      viewer.leave();
      viewer.show({ from: from - by, to: to - by });
    }
  }

  private ranged(begin: number, event: PointerEvent): Span {
    const most = this.viewer.data.head.makespan_ns;
    const [one, other] = [begin, this.viewer.scale.time(event.offsetX)].map((time) => Math.min(Math.max(time, 0), most));
    return { from: Math.round(Math.min(one, other)), to: Math.round(Math.max(one, other)) };
  }

  /** Two fingers: what is under them stays under them. */
  private pinch(event: PointerEvent): void {
    const other = [...this.down].find(([id]) => id !== event.pointerId)![1];
    const before = this.down.get(event.pointerId)!;
    const [was, is] = [Math.abs(before.x - other.x), Math.abs(event.offsetX - other.x)];
    this.down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (this.drag !== null) this.drag.moved = true;
    if (was > 5 && is > 5) this.viewer.zoom(is / was, this.viewer.scale.time((event.offsetX + other.x) / 2));
  }

  private end(event: PointerEvent): void {
    this.down.delete(event.pointerId);
    const { viewer, drag } = this;
    this.drag = null;
    if (drag === null) return;
    if (drag.range !== null && drag.moved) {
      const range = this.ranged(drag.range, event);
      viewer.range = range.to - range.from > CLOSEST ? range : null;
    } else if (!drag.moved && !drag.overview && event.type === "pointerup") {
      const action = viewer.under(event);
      const point = viewer.pointUnder(event);
      if (action === null && point !== null) viewer.choose(point);
      else viewer.select(action);
    }
  }

  private double(event: MouseEvent): void {
    const { viewer } = this;
    const action = viewer.under(event);
    if (action === null) {
      viewer.fit();
      return;
    }
    const { start, end } = viewer.data;
    const length = end[action] - start[action];
    viewer.show({ from: start[action] - 4 * length, to: end[action] + 4 * length });
  }
}
