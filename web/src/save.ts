/** Pictures of what is seen, as files. */
import { shadesOf, type Colours } from "./colours";
import { COPIES, ENCODERS, type Report } from "./data";
import { download, fileName } from "./dom";
import type { Pen } from "./pen";
import { SvgPen } from "./svg_pen";
import type { Viewer } from "./viewer";
import { say } from "./words";

const WIDTH = 1400;
const HEADER = 66;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
const OPS: Record<string, string> = { F: "forward", B: "backward", I: "input", W: "weight" };
const PNG_ZOOM = 2;

export function saveSvg(report: Report, viewers: readonly Viewer[], colours: Colours): void {
  const pen = new SvgPen();
  const height = drawAll(pen.pen, report, viewers, colours);
  download(`${fileName(report.head.title)}.svg`, pen.text(WIDTH, height, report.head.title), "image/svg+xml");
}

export function savePng(report: Report, viewers: readonly Viewer[], colours: Colours): void {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [PNG_ZOOM * WIDTH, PNG_ZOOM * heightOf(viewers)];
  const context = canvas.getContext("2d")!;
  context.scale(PNG_ZOOM, PNG_ZOOM);
  drawAll(context, report, viewers, colours);
  canvas.toBlob((blob) => { if (blob !== null) download(`${fileName(report.head.title)}.png`, blob, "image/png"); }, "image/png");
}

function heightOf(viewers: readonly Viewer[]): number {
  return viewers.reduce((all, viewer) => all + HEADER + viewer.height(WIDTH), 0);
}

/** Draw every viewer below its name, certificate and legend; returns the height of all. */
function drawAll(pen: Pen, report: Report, viewers: readonly Viewer[], colours: Colours): number {
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, WIDTH, heightOf(viewers));
  pen.save();
  for (const viewer of viewers) {
    const { head } = report.timelines[viewer.timeline];
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.font = `600 17px ${FONT}`;
    pen.fillText(report.timelines.length > 1 ? `${report.head.title}: ${head.name}` : report.head.title, 12, 18);
    pen.font = `12px ${FONT}`;
    pen.fillStyle = colours.muted;
    pen.fillText(head.certificate.split("\n")[0], 12, 38);
    let x = 12;
    const used = new Set(report.timelines[viewer.timeline].op);
    const entry = (name: string, shades: readonly string[]): void => {
      for (const shade of shades) {
        pen.fillStyle = shade;
        pen.fillRect(x, 50, 11, 11);
        x += 12;
      }
      pen.fillStyle = colours.muted;
      pen.fillText(name, x + 4, 56);
      x += pen.measureText(name).width + 22;
    };
    head.ops.forEach((letter, code) => {
      if (used.has(code)) entry(say(OPS[letter]), shadesOf(colours, letter).slice(0, head.chunks));
    });
    if (head.copies !== null) COPIES.forEach((name, way) => entry(say(name), [colours.copies[way]]));
    head.encoders.forEach((_count, way) => entry(say(ENCODERS[way]), [colours.encoders[way]]));
    if (report.timelines[viewer.timeline].saved?.some((each) => each > 0)) entry(say("hidden"), [colours.hidden]);
    pen.translate(0, HEADER);
    pen.translate(0, viewer.draw(pen, WIDTH));
  }
  pen.restore();
  return heightOf(viewers);
}
