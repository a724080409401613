/** Where everything of a picture is: the overview, the time axis, a row for each rank, and its memory below. */
import type { Timeline } from "./data";

const OVERVIEW = 26;
const AXIS = 22;
const GAP = 8;
const HEADING = 22;
/** Most pixels of all rows and of all memory strips, unless rows would be too low to be seen: a screen has room for them. */
const TIMELINES = 400;
const STRIPS = 400;
const LOWEST = 6;

export interface Rows {
  top: number;
  pitch: number;
  /** Pixels of a row that are drawn on. */
  ink: number;
  /** Pixels of the height of a line of copies, of which a row has one for each direction below its blocks; 0 for none. */
  lane: number;
  count: number;
}

export interface Layout {
  width: number;
  height: number;
  left: number;
  right: number;
  overview: { top: number; height: number };
  axis: { top: number; height: number };
  rows: Rows;
  /** Null where memory is not known. */
  memory: Rows | null;
  memoryHeading: number;
}

export function layoutOf(timeline: Timeline, width: number, isSmall = width < 600): Layout {
  const { ranks } = timeline.head;
  const left = isSmall ? 44 : 76;
  const right = width - (isSmall ? 8 : 16);
  const overview = { top: 2, height: OVERVIEW };
  const axis = { top: overview.top + OVERVIEW + 4, height: AXIS };
  const pitch = Math.max(LOWEST, Math.min(38, Math.floor(TIMELINES / ranks)));
  const lane = timeline.copies.length > 0 ? Math.max(1, Math.round(pitch / 9)) : 0;
  const rows = { top: axis.top + AXIS, pitch, ink: pitch - (pitch > 14 ? 4 : 1) - 2 * lane, lane, count: ranks };
  const bottom = rows.top + ranks * pitch;
  if (timeline.memory === null) {
    return { width, height: bottom + GAP, left, right, overview, axis, rows, memory: null, memoryHeading: 0 };
  }
  const strip = Math.max(10, Math.min(58, Math.floor(STRIPS / ranks)));
  const memory = { top: bottom + HEADING + GAP, pitch: strip, ink: strip - (strip > 14 ? 5 : 2), lane: 0, count: ranks };
  const height = memory.top + ranks * strip + GAP;
  return { width, height, left, right, overview, axis, rows, memory, memoryHeading: bottom + GAP + HEADING - 8 };
}

/** The rank whose row is at a height; -1 for none. */
export function rankAt(rows: Rows, y: number): number {
  const rank = Math.floor((y - rows.top) / rows.pitch);
  return rank >= 0 && rank < rows.count ? rank : -1;
}
