/** Times as pixels, and both as words. */

export interface Span {
  /** Nanoseconds. */
  from: number;
  to: number;
}

export class Scale {
  readonly perNs: number;

  constructor(
    readonly left: number,
    readonly width: number,
    readonly span: Span,
  ) {
    this.perNs = width / Math.max(span.to - span.from, 1e-9);
  }

  x(time: number): number {
    return this.left + (time - this.span.from) * this.perNs;
  }

  time(x: number): number {
    return this.span.from + (x - this.left) / this.perNs;
  }
}

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** The smallest of 1, 2, 5 times a power of ten that is not below `rough`. */
export function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 5]) if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

/** Ticks of a time axis, with their labels in one unit. */
export function ticks(scale: Scale, spacing: number): { time: number; label: string }[] {
  const { from, to } = scale.span;
  const step = Math.max(niceStep((spacing / scale.width) * (to - from)), 1);
  const [size, unit] = unitOf(Math.max(Math.abs(from), Math.abs(to)));
  const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  const found = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    found.push({ time, label: `${grouped(time / size, digits)} ${unit}` });
  }
  return found;
}

/** The unit of a time, and its nanoseconds: seconds from ten on. */
export function unitOf(time: number): [number, string] {
  return UNITS.find(([size, name]) => Math.abs(time) >= size * (name === "s" ? 10 : 1)) ?? UNITS[UNITS.length - 1];
}

/** A time with about five digits: `1,514.8 ms`. */
export function showTime(time: number): string {
  const [size, unit] = unitOf(time);
  const value = time / size;
  const digits = unit === "ns" ? 0 : Math.min(3, Math.max(0, 4 - Math.floor(Math.log10(Math.max(Math.abs(value), 1)))));
  return `${grouped(value, digits)} ${unit}`;
}

/** Memory in a unit: `55.3 GB`. */
export function showMemory(bytes: number, unit: { bytes: number; name: string }): string {
  const value = bytes / unit.bytes;
  return `${grouped(value, Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : 2)} ${unit.name}`;
}

/** A number with commas between thousands, as English and Chinese have them, and a true minus. */
export function grouped(value: number, digits: number): string {
  const [whole, rest] = Math.abs(value).toFixed(digits).split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest === undefined ? "" : `.${rest}`);
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}
