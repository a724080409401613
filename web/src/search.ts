/** Actions by what people call them: `r3 mb7 B`, `mb12`, `c1 F`, `s5`. */
import type { Timeline } from "./data";

export interface Query {
  rank?: number;
  microbatch?: number;
  chunk?: number;
  stage?: number;
  op?: string;
}

const FORMS: [keyof Query, RegExp][] = [
  ["microbatch", /^(?:mb|m|microbatch)[ =:]?(\d+)$/],
  ["rank", /^(?:r|rank)[ =:]?(\d+)$/],
  ["chunk", /^(?:c|chunk)[ =:]?(\d+)$/],
  ["stage", /^(?:s|stage)[ =:]?(\d+)$/],
];

/** Read what is asked for; null where a word is not understood. `stageIsRank` where users call ranks stages. */
export function parseQuery(text: string, stageIsRank = false): Query | null {
  const query: Query = {};
  const words = text.toLowerCase().replace(/(rank|stage|chunk|microbatch|mb)\s+(?=\d)/g, "$1").split(/[\s,]+/).filter(Boolean);
  for (const word of words) {
    const form = FORMS.find(([, pattern]) => pattern.test(word));
    const action = /^([fbiw])(\d+)?$/.exec(word);
    if (form !== undefined) {
      const key = form[0] === "stage" && stageIsRank ? "rank" : form[0];
      (query[key] as number) = Number(form[1].exec(word)![1]);
    } else if (action !== null) {
      query.op = action[1].toUpperCase();
      if (action[2] !== undefined) query.microbatch = Number(action[2]);
    } else if (/^(forward|backward|input|weight)s?$/.test(word)) {
      query.op = word[0].toUpperCase();
    } else if (/^\d+$/.test(word)) {
      query.microbatch = Number(word);
    } else {
      return null;
    }
  }
  return words.length > 0 ? query : null;
}

/** The actions that a query asks for, in the order of time. */
export function matches(timeline: Timeline, query: Query): number[] {
  const { head } = timeline;
  const ranks = query.rank === undefined ? [...Array(head.ranks).keys()] : query.rank < head.ranks ? [query.rank] : [];
  const found: number[] = [];
  for (const rank of ranks) {
    for (let index = head.rank_starts[rank]; index < head.rank_starts[rank + 1]; index++) {
      if (query.microbatch !== undefined && timeline.microbatch(index) !== query.microbatch) continue;
      if (query.op !== undefined && timeline.letter(index) !== query.op) continue;
      if (query.chunk !== undefined && timeline.chunk(index) !== query.chunk) continue;
      if (query.stage !== undefined && timeline.stage[index] !== query.stage) continue;
      found.push(index);
    }
  }
  return found.sort((one, other) => timeline.start[one] - timeline.start[other]);
}
