/** A changed plan as a part of an address: `l5.4x3~k0.2.0x3~m32~g60129542144`, which has only what differs from the plan. */
import { type Change, type ChangedPlan, layersOf } from "./changed_plan";

/** What stands for the plan as it was. */
export const UNCHANGED = "plan";
export const CODE = /^[\w.~]{1,20000}$/;

export function formatChange(plan: ChangedPlan, { counts, microbatches, limit }: Change): string {
  const { original } = plan;
  const parts: string[] = [];
  const put = (mark: string, now: number[], before: number[]): void => {
    if (now.some((value, place) => value !== before[place])) parts.push(mark + packed(now));
  };
  put("l", counts.map(layersOf), original.counts.map(layersOf));
  plan.kinds.slice(0, -1).forEach((_kind, place) => put(`k${place}.`, counts.map((own) => own[place]), original.counts.map((own) => own[place])));
  if (microbatches !== original.microbatches) parts.push(`m${microbatches}`);
  if (limit !== original.limit) parts.push(`g${limit ?? "none"}`);
  return parts.length === 0 ? UNCHANGED : parts.join("~");
}

/** The change of a code; null where it is not one of this plan. */
export function parseChange(plan: ChangedPlan, code: string): Change | null {
  const { original } = plan;
  let layers = original.counts.map(layersOf);
  const kinds = plan.kinds.slice(0, -1).map((_kind, place) => original.counts.map((own) => own[place]));
  let { microbatches, limit } = original;
  for (const part of code === UNCHANGED ? [] : code.split("~")) {
    const [, mark, value] = /^(l|k\d{1,3}\.|m|g)(.+)$/.exec(part) ?? [];
    if (mark === undefined) return null;
    if (mark === "m") microbatches = Number(value);
    else if (mark === "g") limit = value === "none" ? null : Number(value);
    else {
      const numbers = unpacked(value, layers.length);
      if (numbers === null) return null;
      if (mark === "l") layers = numbers;
      else if (Number(mark.slice(1, -1)) < kinds.length) kinds[Number(mark.slice(1, -1))] = numbers;
      else return null;
    }
  }
  const counts = layers.map((count, stage) => {
    const own = kinds.map((each) => each[stage]);
    return [...own, count - layersOf(own)];
  });
  const change = { counts, microbatches, limit };
  const areWhole = [microbatches, ...(limit === null ? [] : [limit])].every(Number.isSafeInteger);
  return areWhole && plan.isPossible(change) ? change : null;
}

/** `5.4x3` for 5, 4, 4, 4. */
function packed(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let place = 0; place < numbers.length; ) {
    let end = place;
    while (numbers[end] === numbers[place]) end++;
    parts.push(end - place > 1 ? `${numbers[place]}x${end - place}` : String(numbers[place]));
    place = end;
  }
  return parts.join(".");
}

function unpacked(text: string, length: number): number[] | null {
  const numbers: number[] = [];
  for (const part of text.split(".")) {
    const [, value, times] = /^(\d{1,6})(?:x(\d{1,6}))?$/.exec(part) ?? [];
    if (value === undefined || numbers.length + Number(times ?? 1) > length) return null;
    numbers.push(...Array<number>(Number(times ?? 1)).fill(Number(value)));
  }
  return numbers.length === length ? numbers : null;
}
