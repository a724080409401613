/** A pen that writes SVG. */
import type { Pen } from "./pen";

const measuring = document.createElement("canvas").getContext("2d")!;

interface State {
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
  globalAlpha: number;
  dash: number[];
  x: number;
  y: number;
  groups: number;
}

export class SvgPen {
  private readonly parts: string[] = [];
  private readonly kept: State[] = [];
  private clips = 0;
  private path = "";
  private state: State = {
    fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, font: "10px sans-serif", textAlign: "start",
    textBaseline: "alphabetic", globalAlpha: 1, dash: [], x: 0, y: 0, groups: 0,
  };

  get fillStyle(): string { return this.state.fillStyle; }
  set fillStyle(value: string | CanvasGradient | CanvasPattern) { this.state.fillStyle = String(value); }
  get strokeStyle(): string { return this.state.strokeStyle; }
  set strokeStyle(value: string | CanvasGradient | CanvasPattern) { this.state.strokeStyle = String(value); }
  get lineWidth(): number { return this.state.lineWidth; }
  set lineWidth(value: number) { this.state.lineWidth = value; }
  get font(): string { return this.state.font; }
  set font(value: string) { this.state.font = value; }
  get textAlign(): CanvasTextAlign { return this.state.textAlign; }
  set textAlign(value: CanvasTextAlign) { this.state.textAlign = value; }
  get textBaseline(): CanvasTextBaseline { return this.state.textBaseline; }
  set textBaseline(value: CanvasTextBaseline) { this.state.textBaseline = value; }
  get globalAlpha(): number { return this.state.globalAlpha; }
  set globalAlpha(value: number) { this.state.globalAlpha = value; }

  /** The pen as what the pictures take: it has all that they use. */
  get pen(): Pen { return this as unknown as Pen; }

  save(): void { this.kept.push({ ...this.state, groups: 0 }); }

  restore(): void {
    const kept = this.kept.pop();
    if (kept === undefined) return;
    this.parts.push("</g>".repeat(this.state.groups));
    this.state = { ...kept, groups: this.kept.length === 0 ? 0 : kept.groups };
  }

  translate(x: number, y: number): void {
    this.state.x += x;
    this.state.y += y;
  }

  setLineDash(dash: number[]): void { this.state.dash = dash; }
  beginPath(): void { this.path = ""; }
  moveTo(x: number, y: number): void { this.path += `M${this.at(x, y)}`; }
  lineTo(x: number, y: number): void { this.path += `L${this.at(x, y)}`; }
  closePath(): void { this.path += "Z"; }

  rect(x: number, y: number, width: number, height: number): void {
    this.path += `M${this.at(x, y)}h${tenth(width)}v${tenth(height)}h${tenth(-width)}Z`;
  }

  fill(): void { this.parts.push(`<path d="${this.path}" fill="${this.fillStyle}"${this.alpha}/>`); }
  stroke(): void { this.parts.push(`<path d="${this.path}" fill="none"${this.line}/>`); }

  clip(): void {
    const name = `clip${this.clips++}`;
    this.parts.push(`<clipPath id="${name}"><path d="${this.path}"/></clipPath><g clip-path="url(#${name})">`);
    this.state.groups += 1;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    if (width <= 0 || height <= 0) return;
    this.parts.push(`<rect${this.box(x, y, width, height)} fill="${this.fillStyle}"${this.alpha}/>`);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect${this.box(x, y, width, height)} fill="none"${this.line}/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = { center: "middle", right: "end", end: "end", left: "start", start: "start" }[this.textAlign];
    const [, weight, size] = /^(?:(\d+) )?([\d.]+)px/.exec(this.font) ?? [];
    // Programs differ in what they do with baselines: the text is moved instead.
    const down = this.textBaseline === "middle" ? 0.35 * Number(size) : 0;
    const [left, top] = [tenth(x + this.state.x), tenth(y + this.state.y + down)];
    const bold = weight === undefined ? "" : ` font-weight="${weight}"`;
    this.parts.push(
      `<text x="${left}" y="${top}" font-size="${size}"${bold} text-anchor="${anchor}" fill="${this.fillStyle}"${this.alpha}>` +
        `${escaped(text)}</text>`,
    );
  }

  measureText(text: string): TextMetrics {
    measuring.font = this.font;
    return measuring.measureText(text);
  }

  text(width: number, height: number, title: string): string {
    const family = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Noto Sans CJK SC, sans-serif";
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
      `font-family="${family}" role="img"><title>${escaped(title)}</title>\n${this.parts.join("\n")}\n</svg>\n`
    );
  }

  private at(x: number, y: number): string { return `${tenth(x + this.state.x)} ${tenth(y + this.state.y)}`; }

  private box(x: number, y: number, width: number, height: number): string {
    const place = `x="${tenth(x + this.state.x)}" y="${tenth(y + this.state.y)}"`;
    return ` ${place} width="${hundredth(width)}" height="${hundredth(height)}"`;
  }

  private get alpha(): string { return this.globalAlpha === 1 ? "" : ` opacity="${hundredth(this.globalAlpha)}"`; }

  private get line(): string {
    const dash = this.state.dash.length > 0 ? ` stroke-dasharray="${this.state.dash.join(" ")}"` : "";
    return ` stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${dash}${this.alpha}`;
  }
}

function tenth(value: number): number { return Math.round(10 * value) / 10; }
function hundredth(value: number): number { return Math.round(100 * value) / 100; }

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
