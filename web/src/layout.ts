/** Where everything of a picture is: the overview, the time axis, a row for each rank, and its memory below. */
import type { Timeline } from "./data";
import { plainRows, ranksInOrder, type RowView } from "./row_view";

const OVERVIEW = 26;
export const AXIS = 22;
const GAP = 8;
const HEADING = 22;
/** Most pixels of all rows and of all memory strips, unless rows would be too low to be seen: a screen has room for them. */
export const TIMELINES = 400;
const STRIPS = 400;
const LOWEST = 6;
const HIGHEST = 38;
const FOLDED = 5;

export interface Rows {
  top: number;
  bottom: number;
  /** Height of a row that is not folded. */
  pitch: number;
  /** Pixels of such a row that are drawn on. */
  ink: number;
  /** Pixels of the height of a line of copies, of which a row has one for each direction below its blocks; 0 for none. */
  lane: number;
  /** Ranks from top to bottom. */
  order: number[];
  /** By rank: where its row begins, and how many of its pixels are drawn on. */
  tops: number[];
  inks: number[];
}

export interface Layout {
  width: number;
  height: number;
  left: number;
  right: number;
  overview: { top: number; height: number };
  axis: { top: number; height: number };
  rows: Rows;
  /** Null where memory is not known, or folded. */
  memory: Rows | null;
  memoryHeading: number;
}

export interface Shape {
  rows: RowView;
  /** Most pixels of all rows. */
  room: number;
  showsMemory: boolean;
  showsOverview: boolean;
  showsAxis: boolean;
}

export function plainShape(): Shape {
  return { rows: plainRows(), room: TIMELINES, showsMemory: true, showsOverview: true, showsAxis: true };
}

export function layoutOf(timeline: Timeline, width: number, shape: Shape, isSmall = width < 600): Layout {
  const { ranks } = timeline.head;
  const left = isSmall ? 44 : 76;
  const right = width - (isSmall ? 8 : 16);
  const overview = { top: 2, height: shape.showsOverview ? OVERVIEW : 0 };
  const axis = { top: overview.top + (shape.showsOverview ? OVERVIEW + 4 : 0), height: shape.showsAxis ? AXIS : 2 };
  const copies = timeline.copies.length > 0;
  const rows = rowsOf(shape.rows, ranks, axis.top + axis.height, pitchOf(shape, ranks, LOWEST, HIGHEST), copies);
  if (timeline.memory === null || !shape.showsMemory) {
    return { width, height: rows.bottom + GAP, left, right, overview, axis, rows, memory: null, memoryHeading: 0 };
  }
  const strip = Math.max(10, Math.min(58, Math.floor(STRIPS / ranks)));
  const memory = rowsOf(shape.rows, ranks, rows.bottom + HEADING + GAP, Math.round(strip * shape.rows.zoom), false, strip > 14 ? 5 : 2);
  const height = memory.bottom + GAP;
  return { width, height, left, right, overview, axis, rows, memory, memoryHeading: rows.bottom + GAP + HEADING - 8 };
}

function pitchOf(shape: Shape, ranks: number, least: number, most: number): number {
  return Math.round(Math.max(least, Math.min(most, Math.floor(shape.room / ranks))) * shape.rows.zoom);
}

function rowsOf(view: RowView, ranks: number, top: number, pitch: number, copies: boolean, space = pitch > 14 ? 4 : 1): Rows {
  const lane = copies ? Math.max(1, Math.round(pitch / 9)) : 0;
  const order = ranksInOrder(view, ranks);
  const ink = pitch - space - 2 * lane;
  const [tops, inks]: number[][] = [Array(ranks).fill(0), Array(ranks).fill(0)];
  let bottom = top;
  for (const rank of order) {
    const isFolded = view.folded.includes(rank) && pitch > FOLDED;
    tops[rank] = bottom;
    inks[rank] = isFolded ? FOLDED - 1 : ink;
    bottom += isFolded ? FOLDED : pitch;
  }
  return { top, bottom, pitch, ink, lane, order, tops, inks };
}

/** Whether a rank has a row that is as high as others. */
export function isWhole(rows: Rows, rank: number): boolean {
  return rows.inks[rank] === rows.ink;
}

/** The rank whose row is at a height; -1 for none. */
export function rankAt(rows: Rows, y: number): number {
  if (y < rows.top || y >= rows.bottom) return -1;
  return rows.order.findLast((rank) => rows.tops[rank] <= y) ?? -1;
}
