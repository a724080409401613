/** A place in the report as the end of its address: `#plan=1&rank=3&mb=7&op=B&t=120ms&span=40ms&pin=3&fold=4-7`. */
import { CODE } from "./change_code";
import type { Span } from "./scale";

export interface Place {
  rank?: number;
  microbatch?: number;
  chunk?: number;
  op?: string;
  /** The middle of what is seen, ns, and how much that is. */
  time?: number;
  span?: number;
  plan?: number;
  /** Timelines that are shown side by side, and whether each has a time axis of its own. */
  beside?: number[];
  ownAxes?: boolean;
  /** A time on the rank, ns. */
  at?: number;
  range?: Span;
  rows?: number;
  pinned?: number[];
  folded?: number[];
  order?: number[];
  causes?: boolean;
  path?: boolean;
  memory?: boolean;
  /** What is changed in the plan, as `change_code.ts` writes it. */
  whatIf?: string;
}

const FACTORS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, "": 1e6 };
const NUMBERS: Record<string, "rank" | "microbatch" | "chunk" | "plan"> = {
  rank: "rank",
  stage: "rank",
  mb: "microbatch",
  chunk: "chunk",
  plan: "plan",
};

const LISTS: Record<string, "beside" | "pinned" | "folded" | "order"> = { beside: "beside", pin: "pinned", fold: "folded", order: "order" };
const SWITCHES: Record<string, "causes" | "path" | "memory" | "ownAxes"> = { causes: "causes", path: "path", memory: "memory", axes: "ownAxes" };
const MOST_LISTED = 4096;

export function parsePlace(hash: string): Place {
  const place: Place = {};
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const number = NUMBERS[key];
    if (number !== undefined && /^\d{1,9}$/.test(value)) place[number] = Number(value);
    if (key === "op" && /^[FBIW]$/i.test(value)) place.op = value.toUpperCase();
    const [list, isSwitch] = [LISTS[key], SWITCHES[key]];
    if (list !== undefined) {
      const numbers = parseList(value);
      if (numbers !== null) place[list] = numbers;
    }
    if (isSwitch !== undefined && /^(on|off)$/.test(value)) place[isSwitch] = value === "on";
    if (key === "rows" && /^\d(\.\d+)?$/.test(value) && Number(value) >= 1) place.rows = Number(value);
    if (key === "if" && CODE.test(value)) place.whatIf = value;
    if (key === "at") {
      const time = parseTime(value);
      if (time !== null) place.at = Math.round(time);
    }
    if (key === "range") {
      const [from, to] = value.split("..").map(parseTime);
      if (from != null && to != null && from < to) place.range = { from: Math.round(from), to: Math.round(to) };
    }
    if (key === "t" || key === "span") {
      const time = parseTime(value);
      if (time !== null) place[key === "t" ? "time" : "span"] = time;
    }
  }
  return place;
}

/** `120ms`, `1.5s`, `20us` in nanoseconds; a number alone is milliseconds. */
export function parseTime(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|)$/.exec(text.trim());
  return match === null ? null : Number(match[1]) * FACTORS[match[2]];
}

/** `3,0,4-7` as numbers; null for anything else. */
export function parseList(text: string): number[] | null {
  const numbers: number[] = [];
  for (const part of text.split(",")) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (match === null) return null;
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    if (last < first || numbers.length + last - first > MOST_LISTED) return null;
    for (let number = first; number <= last; number++) numbers.push(number);
  }
  return [...new Set(numbers)];
}

export function formatList(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let place = 0; place < numbers.length; place++) {
    let end = place;
    while (end + 1 < numbers.length && numbers[end + 1] === numbers[end] + 1) end++;
    parts.push(end > place ? `${numbers[place]}-${numbers[end]}` : String(numbers[place]));
    place = end;
  }
  return parts.join(",");
}

export function formatPlace(place: Place): string {
  const parts: string[] = [];
  for (const [key, name] of Object.entries(LISTS)) if (place[name] !== undefined && place[name].length > 0) parts.push(`${key}=${formatList(place[name])}`);
  if (place.plan !== undefined) parts.push(`plan=${place.plan}`);
  if (place.whatIf !== undefined) parts.push(`if=${place.whatIf}`);
  if (place.rank !== undefined) parts.push(`rank=${place.rank}`);
  if (place.microbatch !== undefined) parts.push(`mb=${place.microbatch}`);
  if (place.chunk !== undefined) parts.push(`chunk=${place.chunk}`);
  if (place.op !== undefined) parts.push(`op=${place.op}`);
  if (place.time !== undefined) parts.push(`t=${milliseconds(place.time)}`);
  if (place.span !== undefined) parts.push(`span=${milliseconds(place.span)}`);
  if (place.at !== undefined) parts.push(`at=${place.at / 1e6}ms`);
  if (place.range !== undefined) parts.push(`range=${place.range.from / 1e6}ms..${place.range.to / 1e6}ms`);
  if (place.rows !== undefined) parts.push(`rows=${place.rows}`);
  for (const [key, name] of Object.entries(SWITCHES)) if (place[name] !== undefined) parts.push(`${key}=${place[name] ? "on" : "off"}`);
  return parts.length > 0 ? `#${parts.join("&")}` : "";
}

function milliseconds(time: number): string {
  return `${Number((time / 1e6).toPrecision(7))}ms`;
}
