/** A timeline drawn with a pen: the same picture on the screen, in an SVG file and on paper. */
import { type Colours, rgb, shadesOf } from "./colours";
import { CAUSES, firstAbove, type Timeline } from "./data";
import type { DensityRows } from "./density";
import { isWhole, type Layout, type Rows } from "./layout";
import type { Pen } from "./pen";
import { Scale, type Span, showMemory, ticks } from "./scale";
import { say } from "./words";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
/** Pixels of an action, on average, below which a row is drawn as columns of mean colours. */
const FEWEST_PIXELS = 2.5;

export interface Marks {
  selected: number;
  /** Actions that decided when the selected one starts. */
  chain: readonly number[];
  /** Shown where the user asks for it. */
  critical: readonly number[];
  showsCauses: boolean;
}

/** What is drawn over the picture. */
export interface Over {
  hovered: number;
  range: Span | null;
  /** A time that somebody pointed out, ns. */
  time: number | null;
}

export interface Canvas {
  pen: Pen;
  density: DensityRows;
}

export class Picture {
  private readonly shades: [number, number, number][][];
  private readonly fills: string[][];
  private readonly mostBytes: number;
  private overview: Float32Array | null = null;

  constructor(
    readonly timeline: Timeline,
    readonly layout: Layout,
    readonly colours: Colours,
    readonly unit: { bytes: number; name: string },
    mostBytes?: number,
  ) {
    const { head } = timeline;
    this.fills = head.ops.map((op) => shadesOf(colours, op));
    this.shades = this.fills.map((shades) => shades.map(rgb));
    this.mostBytes = mostBytes ?? 1.06 * Math.max(head.limit_bytes ?? 0, ...(head.peak_bytes ?? [1]));
  }

  scale(span: Span): Scale {
    return new Scale(this.layout.left, this.layout.right - this.layout.left, span);
  }

  draw(canvas: Canvas, span: Span, marks: Marks): void {
    const { pen } = canvas;
    const { layout, colours } = this;
    const scale = this.scale(span);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, layout.width, layout.height);
    this.drawAxis(pen, scale);
    this.labels(pen, layout.rows);
    clipped(pen, layout.left, layout.rows.top, layout.right, layout.rows.bottom, () => {
      for (const rank of layout.rows.order) this.drawRow(canvas, scale, rank, marks);
      this.drawPath(pen, scale, marks.critical, colours.critical, false);
      this.drawPath(pen, scale, marks.chain, colours.accent, true);
      this.outline(pen, scale, marks.selected, colours.accent, 2.5);
    });
    if (layout.memory !== null) this.drawMemory(pen, scale, layout.memory);
    if (layout.overview.height > 0) this.drawOverview(canvas, span);
  }

  /** What changes as the pointer moves, over the picture: the action under it, a range and a time that are marked. */
  drawOver(pen: Pen, span: Span, over: Over): void {
    const { layout, colours } = this;
    const scale = this.scale(span);
    const bottom = (layout.memory ?? layout.rows).bottom;
    clipped(pen, layout.left, layout.axis.top, layout.right, bottom, () => {
      this.outline(pen, scale, over.hovered, colours.ink, 1);
      if (over.range !== null) {
        const [from, to] = [scale.x(over.range.from), scale.x(over.range.to)];
        pen.globalAlpha = 0.18;
        pen.fillStyle = colours.accent;
        pen.fillRect(from, layout.axis.top, to - from, bottom - layout.axis.top);
        pen.globalAlpha = 1;
      }
      if (over.time === null) return;
      pen.strokeStyle = colours.accent;
      pen.lineWidth = 1;
      line(pen, scale.x(over.time), layout.axis.top, scale.x(over.time), bottom);
    });
  }

  /** The whole step in a strip, as shares of work, with the window that is seen. */
  private drawOverview({ pen, density }: Canvas, span: Span): void {
    const { layout, colours, timeline } = this;
    const { top, height } = layout.overview;
    const whole = this.scale({ from: 0, to: timeline.head.makespan_ns });
    const count = Math.round(whole.width);
    if (this.overview === null) {
      const columns = new MeanColours(count, rgb(colours.paper));
      for (let rank = 0; rank < timeline.head.ranks; rank++) this.mix(columns, whole, rank, false, 1 / timeline.head.ranks);
      this.overview = columns.done();
    }
    density.draw(this.overview, layout.left, top, count, height);
    const [left, right] = [whole.x(Math.max(span.from, 0)), whole.x(Math.min(span.to, timeline.head.makespan_ns))];
    pen.globalAlpha = 0.55;
    pen.fillStyle = colours.paper;
    pen.fillRect(layout.left, top, Math.max(0, left - layout.left), height);
    pen.fillRect(right, top, Math.max(0, layout.right - right), height);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(left, top + 0.5, Math.max(right - left, 3), height - 1);
  }

  private drawAxis(pen: Pen, scale: Scale): void {
    const { layout, colours } = this;
    pen.font = `11px ${FONT}`;
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    pen.lineWidth = 1;
    const bottom = layout.memory === null ? layout.rows.bottom : layout.height - 6;
    for (const { time, label } of ticks(scale, 110)) {
      const x = Math.round(scale.x(time)) + 0.5;
      pen.strokeStyle = colours.hairline;
      line(pen, x, layout.axis.top + layout.axis.height - 5, x, bottom);
      if (layout.axis.height < 10) continue;
      const half = pen.measureText(label).width / 2;
      pen.fillStyle = colours.muted;
      pen.fillText(label, Math.max(layout.left + half, Math.min(x, layout.right - half)), layout.axis.top + 8);
    }
  }

  private labels(pen: Pen, rows: Rows): void {
    const every = Math.max(1, Math.ceil(10 / rows.pitch));
    pen.font = `${Math.min(12, Math.max(8, rows.pitch - 1))}px ${FONT}`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillStyle = this.colours.ink;
    for (const [place, rank] of rows.order.filter((each) => isWhole(rows, each)).entries()) {
      if (place % every > 0) continue;
      const text = this.layout.left < 60 ? String(rank) : say("rank_label", { rank });
      pen.fillText(text, this.layout.left - 7, rows.tops[rank] + rows.ink / 2);
    }
  }

  /** The copies of a rank below its blocks: to the host, and under these back. */
  private drawCopies(pen: Pen, scale: Scale, rank: number, y: number): void {
    const { timeline, colours } = this;
    const { ink, lane } = this.layout.rows;
    if (!isWhole(this.layout.rows, rank)) return;
    const { rank_starts: starts } = timeline.head;
    timeline.copies.forEach(({ actions, start, end }, way) => {
      pen.fillStyle = colours.copies[way];
      const last = firstAbove(actions, starts[rank + 1] - 1, 0, actions.length);
      let drawn = Number.NEGATIVE_INFINITY;
      for (let index = firstAbove(actions, starts[rank] - 1, 0, last); index < last; index++) {
        if (end[index] < scale.span.from || start[index] > scale.span.to) continue;
        const [x, right] = [scale.x(start[index]), scale.x(end[index])];
        if (right < drawn + 0.5 && right >= drawn - 1) continue; // a pixel that has it already
        drawn = Math.max(right, x + 0.5);
        pen.fillRect(x, y + ink + way * lane, drawn - x, lane);
      }
    });
  }

  /** What encoders do in the bubbles of a rank. */
  private drawEncoders(pen: Pen, scale: Scale, rank: number, y: number): void {
    const { timeline, colours } = this;
    timeline.encoders.forEach((parts, way) => {
      pen.fillStyle = colours.encoders[way];
      const [first, last] = timeline.ofRank(parts, rank);
      for (let index = firstAbove(parts.end, scale.span.from, first, last); index < last && parts.start[index] < scale.span.to; index++) {
        const [x, right] = [scale.x(parts.start[index]), scale.x(parts.end[index])];
        pen.fillRect(x, y, Math.max(right - x - (right - x > 4 ? 0.8 : 0), 0.5), this.layout.rows.inks[rank]);
      }
    });
  }

  private drawRow(canvas: Canvas, scale: Scale, rank: number, marks: Marks): void {
    const { timeline, layout } = this;
    const y = layout.rows.tops[rank];
    this.drawCopies(canvas.pen, scale, rank, y);
    const first = timeline.firstEndingAfter(rank, scale.span.from);
    const last = timeline.firstEndingAfter(rank, scale.span.to);
    const seen = Math.max(last - first, 1);
    if (scale.width / seen < FEWEST_PIXELS) {
      const count = Math.round(scale.width);
      const columns = new MeanColours(count, rgb(this.colours.paper));
      this.mix(columns, scale, rank, marks.showsCauses, 1);
      canvas.density.draw(columns.done(), layout.left, y, count, layout.rows.inks[rank]);
      return;
    }
    this.drawBlocks(canvas.pen, scale, rank, first, y);
    if (marks.showsCauses) this.drawGaps(canvas.pen, scale, rank, first, y);
    this.drawEncoders(canvas.pen, scale, rank, y);
  }

  /** Add the colours of a rank to the columns. */
  private mix(columns: MeanColours, scale: Scale, rank: number, withCauses: boolean, weight: number): void {
    const { timeline } = this;
    const { start, end: ends, gap: gaps, recompute, op, stage } = timeline;
    const chunkOf = timeline.head.stage_chunk;
    const last = timeline.head.rank_starts[rank + 1];
    const dark = rgb(this.colours.recompute);
    const parts = withCauses && timeline.causes !== null ? CAUSES.map((cause) => timeline.causes![cause]) : [];
    const tints = CAUSES.map((cause) => rgb(this.colours[cause]));
    const { perNs } = scale;
    const { from, to } = scale.span;
    for (let index = timeline.firstEndingAfter(rank, from); index <= last; index++) {
      const gap = index === last ? timeline.tail(rank) : index;
      let at = (index === last ? timeline.head.makespan_ns : start[index]) - gaps[gap];
      if (at > to) break;
      if (gaps[gap] > 0) {
        for (let cause = 0; cause < parts.length; cause++) {
          const part = parts[cause][gap];
          if (part > 0) columns.add((at - from) * perNs, (at + part - from) * perNs, tints[cause], 0.6 * weight);
          at += part;
        }
      }
      if (index === last) break;
      const shades = this.shades[op[index]];
      const x = (start[index] - from) * perNs;
      columns.add(x, (ends[index] - from) * perNs, shades[chunkOf[stage[index]] % shades.length], weight);
      if (recompute[index] > 0) columns.blend(x, x + recompute[index] * perNs, dark, 0.45 * weight);
    }
    timeline.encoders.forEach((parts, way) => {
      const colour = rgb(this.colours.encoders[way]);
      const [first, behind] = timeline.ofRank(parts, rank);
      for (let index = firstAbove(parts.end, from, first, behind); index < behind && parts.start[index] < to; index++) {
        columns.add((parts.start[index] - from) * perNs, (parts.end[index] - from) * perNs, colour, weight);
      }
    });
  }

  private drawBlocks(pen: Pen, scale: Scale, rank: number, first: number, y: number): void {
    const { timeline, colours } = this;
    const ink = this.layout.rows.inks[rank];
    const end = timeline.head.rank_starts[rank + 1];
    const size = Math.min(12, ink - 3);
    // As wide as the longest number: numbers that come and go along a row would say nothing.
    const needed = 0.6 * size * String(timeline.head.microbatches - 1).length + 3;
    pen.font = `${size}px ${FONT}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let index = first; index < end && timeline.start[index] < scale.span.to; index++) {
      const [x, right] = [scale.x(timeline.start[index]), scale.x(timeline.end[index])];
      const shades = this.fills[timeline.op[index]];
      const width = Math.max(right - x - (right - x > 4 ? 0.8 : 0), 0.5);
      pen.fillStyle = shades[timeline.chunk(index) % shades.length];
      pen.fillRect(x, y, width, ink);
      if (timeline.recompute[index] > 0) this.hatch(pen, x, y, scale.x(timeline.start[index] + timeline.recompute[index]) - x, ink);
      this.drawHidden(pen, scale, index, y);
      if (size < 6 || width < needed) continue;
      const number = String(timeline.microbatch(index));
      const [seenLeft, seenRight] = [Math.max(x, scale.left), Math.min(x + width, scale.left + scale.width)];
      if (seenRight - seenLeft < needed) continue;
      const wide = seenRight - seenLeft > 9 * size;
      const chunk = timeline.head.chunks > 1 ? ` · c${timeline.chunk(index)}` : "";
      pen.fillStyle = "#10161f";
      pen.fillText(wide ? `${timeline.letter(index)}${number}${chunk}` : number, (seenLeft + seenRight) / 2, y + ink / 2 + 0.5);
    }
    pen.fillStyle = colours.ink;
  }

  /** What a pair saves, as a line along its bottom: over its forward, and with its backward once more over that. */
  private drawHidden(pen: Pen, scale: Scale, index: number, y: number): void {
    const { timeline } = this;
    const ink = this.layout.rows.inks[timeline.rank(index)];
    const partner = timeline.beside(index);
    if (partner < 0) return;
    const forward = Math.min(index, partner);
    const height = Math.max(1, Math.round(ink / 7));
    const [x, right] = [scale.x(timeline.start[forward]), scale.x(timeline.start[forward] + timeline.saved![forward])];
    pen.fillStyle = this.colours.hidden;
    pen.fillRect(x, y + ink - height, right - x, height);
  }

  /** Recomputation: dark lines over the beginning of a block. */
  private hatch(pen: Pen, x: number, y: number, width: number, height: number): void {
    const [left, right] = [Math.max(x, this.layout.left - height), Math.min(x + width, this.layout.right + height)];
    if (right <= left) return;
    pen.globalAlpha = 0.2;
    pen.fillStyle = this.colours.recompute;
    pen.fillRect(left, y, right - left, height);
    pen.globalAlpha = 0.75;
    if (right - left < 5) {
      pen.fillRect(left, y + 0.72 * height, right - left, 0.28 * height);
      pen.globalAlpha = 1;
      return;
    }
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, height);
    pen.clip();
    pen.strokeStyle = this.colours.recompute;
    pen.lineWidth = 1;
    pen.beginPath();
    const phase = (left - x) % 5;
    for (let at = left - phase - height; at < right; at += 5) {
      pen.moveTo(at, y + height);
      pen.lineTo(at + height, y);
    }
    pen.stroke();
    pen.restore();
    pen.globalAlpha = 1;
  }

  /** Idle time by cause: a bar through the gap, in parts. */
  private drawGaps(pen: Pen, scale: Scale, rank: number, first: number, y: number): void {
    const { timeline, colours } = this;
    const ink = this.layout.rows.inks[rank];
    const end = timeline.head.rank_starts[rank + 1];
    const [top, height] = [y + 0.28 * ink, 0.44 * ink];
    for (let index = first; index <= end; index++) {
      const gap = index === end ? timeline.tail(rank) : index;
      const length = timeline.gap[gap];
      let from = index === end ? timeline.head.makespan_ns - length : timeline.start[index] - length;
      if (from > scale.span.to) break;
      if (length * scale.perNs < 0.8) continue;
      if (timeline.causes === null) {
        pen.fillStyle = colours.unknown;
        pen.fillRect(scale.x(from), top, length * scale.perNs, height);
        continue;
      }
      for (const cause of CAUSES) {
        const part = timeline.causes[cause][gap];
        if (part <= 0) continue;
        pen.fillStyle = colours[cause];
        pen.fillRect(scale.x(from), top, Math.max(part * scale.perNs - 0.4, 0.3), height);
        from += part;
      }
    }
  }

  private outline(pen: Pen, scale: Scale, action: number, colour: string, width: number): void {
    if (action < 0) return;
    const { tops, inks } = this.layout.rows;
    const rank = this.timeline.rank(action);
    const [x, right] = [scale.x(this.timeline.start[action]), scale.x(this.timeline.end[action])];
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(x - 0.5, tops[rank] - 0.5, Math.max(right - x, 2) + 0.5, inks[rank] + 1);
  }

  /** A path through actions: bars under them, and lines from the end of one to the start of the next. */
  private drawPath(pen: Pen, scale: Scale, path: readonly number[], colour: string, withLines: boolean): void {
    const { timeline } = this;
    const { tops, inks, ink } = this.layout.rows;
    const middle = (action: number): number => tops[timeline.rank(action)] + inks[timeline.rank(action)] / 2;
    if (path.length === 0) return;
    const bar = Math.max(2, Math.min(4, ink / 5));
    pen.fillStyle = colour;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.3;
    for (let place = 0; place < path.length; place++) {
      const action = path[place];
      if (timeline.end[action] >= scale.span.from && timeline.start[action] <= scale.span.to) {
        const [x, right] = [scale.x(timeline.start[action]), scale.x(timeline.end[action])];
        const rank = timeline.rank(action);
        pen.fillRect(x, tops[rank] + inks[rank] - bar, Math.max(right - x, 1), bar);
      }
      const next = path[place + 1];
      if (!withLines || next === undefined || timeline.rank(next) === timeline.rank(action)) continue;
      const [from, to] = [scale.x(timeline.end[action]), scale.x(timeline.start[next])];
      if (to < scale.left || from > scale.left + scale.width) continue;
      line(pen, from, middle(action), to, middle(next));
    }
  }

  private drawMemory(pen: Pen, scale: Scale, rows: Rows): void {
    const { layout, timeline, colours } = this;
    const { head } = timeline;
    pen.font = `600 12px ${FONT}`;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = colours.ink;
    const heading = say("memory");
    pen.fillText(heading, layout.left, layout.memoryHeading);
    if (head.limit_bytes !== null) {
      const begin = layout.left + pen.measureText(heading).width + 14;
      pen.font = `11px ${FONT}`;
      pen.fillStyle = colours.limit;
      pen.fillText(`– – ${say("limit")} ${showMemory(head.limit_bytes, this.unit)}`, begin, layout.memoryHeading);
    }
    this.labels(pen, rows);
    clipped(pen, layout.left, rows.top - 1, layout.right, rows.bottom, () => {
      for (const rank of rows.order) this.drawStrip(pen, scale, rows, rank);
    });
    if (rows.pitch < 16) return;
    pen.font = `10px ${FONT}`;
    pen.textAlign = "right";
    for (const rank of rows.order) {
      if (!isWhole(rows, rank)) continue;
      const text = showMemory(head.peak_bytes?.[rank] ?? 0, this.unit);
      const y = rows.tops[rank] + rows.ink - 6;
      const width = pen.measureText(text).width;
      pen.globalAlpha = 0.8;
      pen.fillStyle = colours.paper;
      pen.fillRect(layout.right - width - 6, y - 6, width + 5, 12);
      pen.globalAlpha = 1;
      pen.fillStyle = colours.ink;
      pen.fillText(text, layout.right - 3, y);
    }
  }

  /** What a rank holds over time, in columns of a pixel: each as high as the most in its time. */
  private drawStrip(pen: Pen, scale: Scale, rows: Rows, rank: number): void {
    const { colours, layout, timeline } = this;
    const { head } = timeline;
    const base = rows.tops[rank] + rows.inks[rank];
    const perByte = rows.inks[rank] / this.mostBytes;
    const fixed = head.static_bytes?.[rank] ?? 0;
    const count = Math.round(scale.width);
    const most = this.held(scale, rank, count);
    const limit = head.limit_bytes;
    const steps = (begin: boolean): void => {
      for (let column = 0; column < count; column++) {
        const y = base - most[column] * perByte;
        if (column === 0 && begin) pen.moveTo(layout.left, y);
        else if (column === 0 || most[column] !== most[column - 1]) pen.lineTo(layout.left + column, y);
        if (column === count - 1 || most[column] !== most[column + 1]) pen.lineTo(layout.left + column + 1, y);
      }
    };
    pen.fillStyle = colours.activation;
    pen.beginPath();
    pen.moveTo(layout.left, base);
    steps(false);
    pen.lineTo(layout.left + count, base);
    pen.closePath();
    pen.fill();
    pen.fillStyle = colours.fixed;
    pen.fillRect(layout.left, base - fixed * perByte, count, fixed * perByte);
    if (limit !== null) {
      pen.fillStyle = colours.over;
      for (let column = 0; column < count; column++) {
        if (most[column] > limit) {
          pen.fillRect(layout.left + column, base - most[column] * perByte, 1, (most[column] - limit) * perByte);
        }
      }
    }
    pen.strokeStyle = colours.held;
    pen.lineWidth = 1;
    pen.beginPath();
    steps(true);
    pen.stroke();
    if (limit !== null) {
      pen.strokeStyle = colours.limit;
      pen.globalAlpha = rows.pitch < 16 ? 0.45 : 1;
      pen.setLineDash([5, 4]);
      line(pen, layout.left, base - limit * perByte, layout.right, base - limit * perByte);
      pen.setLineDash([]);
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = colours.hairline;
    line(pen, layout.left, base + 0.5, layout.right, base + 0.5);
  }

  /** The most that a rank holds in the time of each column. */
  private held(scale: Scale, rank: number, count: number): Float64Array {
    const { timeline } = this;
    const { times, held: helds, starts } = timeline.course!;
    const last = starts[rank + 1];
    const most = new Float64Array(count);
    let index = firstAbove(times, scale.span.from, starts[rank], last);
    let held = index > starts[rank] ? helds[index - 1] : (timeline.head.static_bytes?.[rank] ?? 0);
    let column = 0;
    for (; index < last; index++) {
      const at = Math.floor((times[index] - scale.span.from) * scale.perNs);
      for (; column < at && column < count; column++) most[column] = Math.max(most[column], held);
      if (column >= count) break;
      held = helds[index];
      if (held > most[column]) most[column] = held;
    }
    for (; column < count; column++) most[column] = Math.max(most[column], held);
    return most;
  }
}

/** Sums of colours by column, each with the share of the column's time that it takes. */
class MeanColours {
  private readonly sums: Float32Array;

  constructor(
    private readonly count: number,
    paper: [number, number, number],
  ) {
    this.sums = new Float32Array(3 * count);
    for (let column = 0; column < count; column++) this.sums.set(paper, 3 * column);
    this.paper = paper;
  }

  private readonly paper: [number, number, number];

  /** Put a colour in the place of paper, from column `from` to column `to`, parts of columns included. */
  add(from: number, to: number, colour: [number, number, number], weight: number): void {
    const red = colour[0] - this.paper[0];
    const green = colour[1] - this.paper[1];
    const blue = colour[2] - this.paper[2];
    const end = Math.min(to, this.count);
    for (let column = Math.max(0, Math.floor(from)); column < end; column++) {
      const share = weight * ((to < column + 1 ? to : column + 1) - (from > column ? from : column));
      const place = 3 * column;
      this.sums[place] += share * red;
      this.sums[place + 1] += share * green;
      this.sums[place + 2] += share * blue;
    }
  }

  /** Mix a colour into what is there. */
  blend(from: number, to: number, colour: [number, number, number], weight: number): void {
    const end = Math.min(to, this.count);
    for (let column = Math.max(0, Math.floor(from)); column < end; column++) {
      const share = weight * (Math.min(to, column + 1) - Math.max(from, column));
      for (let part = 0; part < 3; part++) {
        const place = 3 * column + part;
        this.sums[place] += share * (colour[part] - this.sums[place]);
      }
    }
  }

  done(): Float32Array {
    return this.sums;
  }
}

function line(pen: Pen, x: number, y: number, toX: number, toY: number): void {
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
  pen.stroke();
}

function clipped(pen: Pen, left: number, top: number, right: number, bottom: number, draw: () => void): void {
  pen.save();
  pen.beginPath();
  pen.rect(left, top - 2, right - left, bottom - top + 4);
  pen.clip();
  draw();
  pen.restore();
}
