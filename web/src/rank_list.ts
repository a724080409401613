/** A list of all ranks, in which they are pinned, folded and moved. */
import { button, el } from "./dom";
import { moved, plainRows, ranksInOrder, type RowView, toggled } from "./row_view";
import { say } from "./words";

export function rankList(place: HTMLElement, rows: RowView, ranks: number, change: (rows: RowView) => void): void {
  const focused = place.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : null;
  const items = ranksInOrder(rows, ranks).map((rank) => {
    const [isPinned, isFolded] = [rows.pinned.includes(rank), rows.folded.includes(rank)];
    const named = (word: string): Record<string, string> => ({ "aria-label": `${say(word)}: ${say("rank_label", { rank })}`, title: say(word), "data-key": `${word}-${rank}` });
    return el(
      "li",
      {},
      el("span", {}, say("rank_label", { rank })),
      button(say("pin_rank"), () => change({ ...rows, pinned: toggled(rows.pinned, rank) }), { ...named("pin_rank"), "aria-pressed": String(isPinned) }),
      button(say("fold_rank"), () => change({ ...rows, folded: toggled(rows.folded, rank) }), { ...named("fold_rank"), "aria-pressed": String(isFolded) }),
      button("↑", () => change(moved(rows, ranks, rank, -1)), named("rank_up")),
      button("↓", () => change(moved(rows, ranks, rank, 1)), named("rank_down")),
    );
  });
  const plain = button(say("ranks_plain"), () => change({ ...plainRows(), zoom: rows.zoom }));
  place.replaceChildren(el("ul", { "aria-label": say("ranks_tool") }, ...items), plain);
  if (focused) place.querySelector<HTMLElement>(`[data-key="${focused}"]`)?.focus();
}
