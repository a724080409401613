/** Elements of the page. */

type Child = Node | string | null | undefined | false;
type Properties = Record<string, string | number | boolean | ((event: Event) => void)>;

/** Make an element: properties that are functions listen to the event of their name, all others are attributes. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

export function button(text: string, press: () => void, properties: Properties = {}): HTMLButtonElement {
  return el("button", { type: "button", click: press, ...properties }, text);
}

/** A button that is on or off. */
export function toggle(text: string, isOn: boolean, change: (isOn: boolean) => void): HTMLButtonElement {
  const made = button(text, () => {
    const next = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", String(next));
    change(next);
  }, { "aria-pressed": String(isOn) });
  return made;
}

export function choice(label: string, options: [string, string][], chosen: string, change: (value: string) => void): HTMLLabelElement {
  const select = el("select", { change: () => change(select.value) });
  for (const [value, text] of options) select.append(el("option", { value, selected: value === chosen }, text));
  return el("label", {}, el("span", {}, label), select);
}

/** Offer a file for download. */
export function download(name: string, content: BlobPart, type: string): void {
  const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A name for a file, from words for people. */
export function fileName(words: string): string {
  return words.replace(/[^\p{L}\p{N}]+/gu, "_").replace(/^_+|_+$/g, "").slice(0, 80) || "report";
}
