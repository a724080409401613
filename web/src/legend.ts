/** What the colours mean, for the page and for pictures that are saved. */
import { type Colours, shadesOf } from "./colours";
import { CAUSES, CAUSE_WORDS, COPIES, ENCODERS, type Timeline } from "./data";
import { say } from "./words";

export const OPS: Record<string, string> = { F: "forward", B: "backward", I: "input", W: "weight" };

export interface LegendEntry {
  name: string;
  /** None: words alone. */
  shades: string[];
  isHatched?: boolean;
}

/** Entries for all that is seen in these timelines. */
export function legendOf(timelines: readonly Timeline[], colours: Colours, showsCauses: boolean): LegendEntry[] {
  const heads = timelines.map((each) => each.head);
  const chunks = Math.max(...heads.map((each) => each.chunks));
  const used = new Set(timelines.flatMap((each) => [...new Set(each.op)].map((code) => each.head.ops[code])));
  const entries: LegendEntry[] = heads[0].ops
    .filter((letter) => used.has(letter))
    .map((letter) => ({ name: say(OPS[letter]), shades: shadesOf(colours, letter).slice(0, chunks) }));
  if (chunks > 1) entries.push({ name: say("shades_are_chunks"), shades: [] });
  if (timelines.some(({ recompute }) => recompute.some((each) => each > 0))) {
    entries.push({ name: say("recompute"), shades: [colours.recompute], isHatched: true });
  }
  if (timelines.some(({ copies }) => copies.length > 0)) entries.push(...COPIES.map((name, way) => ({ name: say(name), shades: [colours.copies[way]] })));
  const encoders = Math.max(...heads.map((each) => each.encoders.length));
  entries.push(...ENCODERS.slice(0, encoders).map((name, way) => ({ name: say(name), shades: [colours.encoders[way]] })));
  if (timelines.some(({ saved }) => saved?.some((each) => each > 0))) entries.push({ name: say("hidden"), shades: [colours.hidden] });
  if (!showsCauses) return entries;
  const causes = CAUSES.filter((cause) => timelines.some((each) => each.causes?.[cause].some((part) => part > 0)));
  if (causes.length > 0) entries.push({ name: say("idle_by"), shades: [] }, ...causes.map((cause) => ({ name: say(CAUSE_WORDS[cause]), shades: [colours[cause]] })));
  if (timelines.some((each) => each.causes === null)) entries.push({ name: say("idle"), shades: [colours.unknown] });
  return entries;
}
