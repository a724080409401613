import type { Colours } from "./colours";
import { readReport } from "./data";
import { Viewer } from "./viewer";
import { useWords } from "./words";

async function main(): Promise<void> {
  const report = await readReport(document);
  useWords(report.head.words);
  const set = report.head.palette.paper;
  const colours: Colours = {
    paper: "#ffffff", ink: "#1c2430", muted: "#5b6573", hairline: "#e3e7ec", limit: "#c1121f", over: "#e5383b", held: "#3d4957",
    activation: "#dde3e9", fixed: "#a9b4c0", accent: "#2563eb", critical: "#d0021b", recompute: set.recompute,
    fill: set.idle.fill_drain, imbalance: set.idle.imbalance, recomputing: set.idle.recompute, communication: set.idle.communication,
    unknown: "#c9ced6", forward: set.forward, backward: set.backward, input: set.input, weight: set.weight,
  };
  const place = document.getElementById("report") ?? document.body;
  const viewer = new Viewer(place, report, { timeline: 0, colours });
  document.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && viewer.press(event)) event.preventDefault();
  });
}

void main();
