/** Light and dark, and two sets of colours: that of papers, and one that is safe for the colour blind. */
import type { Colours } from "./colours";
import type { Head } from "./data";

export type Theme = "light" | "dark";
export type PaletteName = "paper" | "safe";

const LIGHT = {
  paper: "#ffffff", ink: "#1c2430", muted: "#5b6573", hairline: "#e3e7ec", over: "#e5383b", held: "#3d4957",
  activation: "#dde3e9", fixed: "#a9b4c0", accent: "#1d5fd1", critical: "#c2185b", unknown: "#c9ced6",
};
const DARK = {
  paper: "#151a21", ink: "#e7ebf0", muted: "#9aa6b4", hairline: "#2b333d", over: "#ff5d5d", held: "#aab6c4",
  activation: "#2e3946", fixed: "#4b5a6b", accent: "#6ea8ff", critical: "#ff6fa3", unknown: "#4a5460",
};

export function coloursOf(head: Head, theme: Theme, palette: PaletteName): Colours {
  const set = head.palette[palette];
  return {
    ...(theme === "dark" ? DARK : LIGHT),
    limit: theme === "dark" ? "#ff7b72" : set.limit,
    recompute: set.recompute,
    copies: theme === "dark" ? ["#3fb8ae", "#b58be0"] : set.copies,
    encoders: set.encoders,
    hidden: set.hidden,
    fill: theme === "dark" ? "#4a5460" : set.idle.fill_drain,
    imbalance: set.idle.imbalance,
    recomputing: set.idle.recompute,
    waiting: theme === "dark" ? "#66727f" : set.idle.waiting,
    communication: set.idle.communication,
    copying: set.idle.host_copies,
    forward: set.forward,
    backward: set.backward,
    input: set.input,
    weight: set.weight,
  };
}

export function systemTheme(): Theme {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Give the style sheet the colours that it shares with the pictures. */
export function applyTheme(theme: Theme, colours: Colours): void {
  const root = document.documentElement;
  root.dataset.theme = theme;
  for (const cause of ["fill", "imbalance", "recomputing", "waiting", "communication", "copying", "unknown", "accent", "recompute"] as const) {
    root.style.setProperty(`--${cause}`, colours[cause]);
  }
}

/** What somebody chose on this page before; browsers may forbid to remember it. */
export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(`evenflow-${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(`evenflow-${key}`, value);
  } catch {
    // the choice holds until the page is closed
  }
}
