/** Pictures of what is seen, as files. */
import type { Colours } from "./colours";
import type { Report } from "./data";
import { download, fileName } from "./dom";
import { type LegendEntry, legendOf } from "./legend";
import type { Pen } from "./pen";
import { SvgPen } from "./svg_pen";
import type { Viewer } from "./viewer";

const WIDTH = 1400;
const LEFT = 12;
/** Heights of name and certificate, and of a line of the legend. */
const HEADER = 48;
const LINE = 18;
const SWATCH = 11;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
const LEGEND_FONT = `12px ${FONT}`;
const PNG_ZOOM = 2;

export function saveSvg(report: Report, viewers: readonly Viewer[], colours: Colours): void {
  const pen = new SvgPen();
  const height = drawAll(pen.pen, report, viewers, colours);
  download(`${fileName(report.head.title)}.svg`, pen.text(WIDTH, height, report.head.title), "image/svg+xml");
}

export function savePng(report: Report, viewers: readonly Viewer[], colours: Colours): void {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d")!;
  const height = viewers.reduce((all, viewer) => all + headerOf(context, viewer, colours) + viewer.height(WIDTH), 0);
  [canvas.width, canvas.height] = [PNG_ZOOM * WIDTH, PNG_ZOOM * height];
  context.scale(PNG_ZOOM, PNG_ZOOM);
  drawAll(context, report, viewers, colours);
  canvas.toBlob((blob) => { if (blob !== null) download(`${fileName(report.head.title)}.png`, blob, "image/png"); }, "image/png");
}

/** Draw every viewer below its name, certificate and legend; returns the height of all. */
function drawAll(pen: Pen, report: Report, viewers: readonly Viewer[], colours: Colours): number {
  const heights = viewers.map((viewer) => headerOf(pen, viewer, colours) + viewer.height(WIDTH));
  const whole = heights.reduce((all, height) => all + height, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, WIDTH, whole);
  pen.save();
  for (const viewer of viewers) {
    const { head } = viewer.data;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.font = `600 17px ${FONT}`;
    pen.fillText(report.timelines.length > 1 ? `${report.head.title}: ${head.name}` : report.head.title, LEFT, 18);
    pen.font = LEGEND_FONT;
    pen.fillStyle = colours.muted;
    pen.fillText(head.certificate.split("\n")[0], LEFT, 38);
    for (const { entry, x, y } of placed(pen, entriesOf(viewer, colours))) drawEntry(pen, entry, x, y, colours);
    pen.translate(0, headerOf(pen, viewer, colours));
    pen.translate(0, viewer.draw(pen, WIDTH));
  }
  pen.restore();
  return whole;
}

function entriesOf(viewer: Viewer, colours: Colours): LegendEntry[] {
  return legendOf([viewer.data], colours, viewer.showsCauses);
}

function headerOf(pen: Pen, viewer: Viewer, colours: Colours): number {
  return Math.max(...placed(pen, entriesOf(viewer, colours)).map(({ y }) => y)) + LINE;
}

/** Where the entries of a legend stand, in as many lines as they need. */
function placed(pen: Pen, entries: LegendEntry[]): { entry: LegendEntry; x: number; y: number }[] {
  let [x, y] = [LEFT, HEADER];
  pen.font = LEGEND_FONT;
  return entries.map((entry) => {
    const width = (SWATCH + 1) * entry.shades.length + pen.measureText(entry.name).width + 22;
    if (x + width > WIDTH) [x, y] = [LEFT, y + LINE];
    const at = { entry, x, y };
    x += width;
    return at;
  });
}

function drawEntry(pen: Pen, { name, shades, isHatched }: LegendEntry, left: number, y: number, colours: Colours): void {
  let x = left;
  for (const shade of shades) {
    pen.fillStyle = shade;
    pen.strokeStyle = shade;
    pen.lineWidth = 1;
    if (!isHatched) pen.fillRect(x, y + 2, SWATCH, SWATCH);
    else {
      pen.strokeRect(x + 0.5, y + 2.5, SWATCH - 1, SWATCH - 1);
      pen.beginPath();
      for (const at of [0.35, 0.75]) {
        pen.moveTo(x, y + 2 + SWATCH * at);
        pen.lineTo(x + SWATCH * at, y + 2);
        pen.moveTo(x + SWATCH * (1 - at), y + 2 + SWATCH);
        pen.lineTo(x + SWATCH, y + 2 + SWATCH * (1 - at));
      }
      pen.stroke();
    }
    x += SWATCH + 1;
  }
  pen.fillStyle = colours.muted;
  pen.fillText(name, x + (shades.length > 0 ? 4 : 0), y + 8);
}
