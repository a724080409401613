/** What to copy to run a plan: one framework at a time. */
import type { TimelineHead } from "./data";
import { button, choice, el } from "./dom";
import { say } from "./words";

export function runBlocks(head: TimelineHead): HTMLElement | null {
  if (head.run.length === 0) return null;
  const titles = [...new Set(head.run.map((block) => block.title))];
  const place = el("div");
  const show = (title: string): void => {
    const own = head.run.filter((block) => block.title === title);
    place.replaceChildren(
      ...(own[0].note === "" ? [] : [el("p", { class: "note" }, own[0].note)]),
      ...own.map((block) => el("div", { class: "run" }, el("h3", {}, block.what, copyButton(block.text)), el("pre", { tabindex: 0 }, el("code", {}, block.text)))),
    );
  };
  show(titles[0]);
  const options: [string, string][] = titles.map((title) => [title, title]);
  return el("details", { class: "running" }, el("summary", {}, say("run")), el("div", { class: "tools" }, choice(say("framework"), options, titles[0], show)), place);
}

export function copyButton(text: string): HTMLButtonElement {
  const made = button(say("copy"), () => {
    void copy(text).then((done) => {
      made.textContent = say(done ? "copied" : "copy_failed");
      setTimeout(() => { made.textContent = say("copy"); }, 1600);
    });
  }, { class: "copy" });
  return made;
}

/** Copy a text; where the browser does not let a page do that, as it may with files, in the old way. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "spoken", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
