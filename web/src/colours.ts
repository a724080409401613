/** The colours of a theme and a palette, as CSS colours of the form #rrggbb. */
export interface Colours {
  paper: string;
  ink: string;
  muted: string;
  hairline: string;
  /** The memory limit, and what is above it. */
  limit: string;
  over: string;
  /** The line of held memory, and what lies under it: activations, and what is always there. */
  held: string;
  activation: string;
  fixed: string;
  /** Selection, chains. */
  accent: string;
  critical: string;
  recompute: string;
  /** To the host, and back. */
  copies: [string, string];
  /** Forwards and backwards of encoders. */
  encoders: [string, string];
  /** What a forward beside a backward saves. */
  hidden: string;
  /** Idle time by cause. */
  fill: string;
  imbalance: string;
  recomputing: string;
  /** Of a measured step. */
  waiting: string;
  communication: string;
  copying: string;
  /** Idle, and nobody knows why. */
  unknown: string;
  /** Shades by chunk. */
  forward: string[];
  backward: string[];
  input: string[];
  weight: string[];
}

/** The shades of an operation by its letter. */
export function shadesOf(colours: Colours, op: string): string[] {
  return op === "F" ? colours.forward : op === "B" ? colours.backward : op === "I" ? colours.input : colours.weight;
}

export function rgb(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}
