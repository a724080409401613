/** A place in the report as the end of its address: `#rank=3&mb=7&op=B&t=120ms&span=40ms&plan=1`. */

export interface Place {
  rank?: number;
  microbatch?: number;
  chunk?: number;
  op?: string;
  /** The middle of what is seen, ns, and how much that is. */
  time?: number;
  span?: number;
  plan?: number;
}

const FACTORS: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, "": 1e6 };
const NUMBERS: Record<string, "rank" | "microbatch" | "chunk" | "plan"> = {
  rank: "rank",
  stage: "rank",
  mb: "microbatch",
  chunk: "chunk",
  plan: "plan",
};

export function parsePlace(hash: string): Place {
  const place: Place = {};
  for (const [key, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const number = NUMBERS[key];
    if (number !== undefined && /^\d{1,9}$/.test(value)) place[number] = Number(value);
    if (key === "op" && /^[FBIW]$/i.test(value)) place.op = value.toUpperCase();
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

export function formatPlace(place: Place): string {
  const parts: string[] = [];
  if (place.plan !== undefined) parts.push(`plan=${place.plan}`);
  if (place.rank !== undefined) parts.push(`rank=${place.rank}`);
  if (place.microbatch !== undefined) parts.push(`mb=${place.microbatch}`);
  if (place.chunk !== undefined) parts.push(`chunk=${place.chunk}`);
  if (place.op !== undefined) parts.push(`op=${place.op}`);
  if (place.time !== undefined) parts.push(`t=${milliseconds(place.time)}`);
  if (place.span !== undefined) parts.push(`span=${milliseconds(place.span)}`);
  return parts.length > 0 ? `#${parts.join("&")}` : "";
}

function milliseconds(time: number): string {
  return `${Number((time / 1e6).toPrecision(7))}ms`;
}
