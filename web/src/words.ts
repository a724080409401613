/** Sentences of the page: all stand in the head, in the language of whoever made it. */
export type Words = Record<string, string>;

let known: Words = {};

export function useWords(words: Words): void {
  known = words;
}

/** The sentence of a key, with its values filled in. */
export function say(key: string, values: Record<string, string | number> = {}): string {
  const sentence = known[key] ?? key;
  return sentence.replace(/\{(\w+)\}/g, (_whole, name: string) => String(values[name] ?? ""));
}
