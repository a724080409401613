/** Rows in which many actions share a pixel: each column has the mean colour of what happens in its time. */
import type { Pen } from "./pen";

export interface DensityRows {
  /** Draw columns of one pixel each, from `x` on: red, green and blue of each, 0 to 255. */
  draw(colours: Float32Array, x: number, y: number, count: number, height: number): void;
}

/** With rectangles, neighbours of nearly the same colour as one: for files. */
export class RectangleRows implements DensityRows {
  constructor(private readonly pen: Pen) {}

  draw(colours: Float32Array, x: number, y: number, count: number, height: number): void {
    let begin = 0;
    let key = -1;
    for (let column = 0; column <= count; column++) {
      const next = column === count ? -2 : quantized(colours, column);
      if (next === key) continue;
      if (key >= 0) {
        this.pen.fillStyle = `#${key.toString(16).padStart(6, "0")}`;
        this.pen.fillRect(x + begin, y, column - begin, height);
      }
      begin = column;
      key = next;
    }
  }
}

function quantized(colours: Float32Array, column: number): number {
  let key = 0;
  for (let part = 0; part < 3; part++) key = key * 256 + Math.min(255, Math.round(colours[3 * column + part] / 12) * 12);
  return key;
}

/** With pixels: for the screen, where it takes a fraction of the time. */
export class PixelRows implements DensityRows {
  private readonly canvas = document.createElement("canvas");

  constructor(private readonly target: CanvasRenderingContext2D) {}

  draw(colours: Float32Array, x: number, y: number, count: number, height: number): void {
    if (count <= 0) return;
    if (this.canvas.width !== count || this.canvas.height !== 1) {
      this.canvas.width = count;
      this.canvas.height = 1;
    }
    const context = this.canvas.getContext("2d")!;
    const image = context.createImageData(count, 1);
    for (let column = 0; column < count; column++) {
      for (let part = 0; part < 3; part++) image.data[4 * column + part] = colours[3 * column + part];
      image.data[4 * column + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    this.target.imageSmoothingEnabled = false;
    this.target.drawImage(this.canvas, 0, 0, count, 1, x, y, count, height);
  }
}
