/** How people arrange rows: which ranks are on top, which are folded, in which order, how high. */

export interface RowView {
  /** Ranks on top, in this order. */
  pinned: number[];
  folded: number[];
  /** Ranks that were moved, with all others: the whole order; empty for that of the ranks. */
  order: number[];
  /** Times as high. */
  zoom: number;
}

export const ZOOM_STEP = 1.5;
const HIGHEST = 8;

export function plainRows(): RowView {
  return { pinned: [], folded: [], order: [], zoom: 1 };
}

/** Ranks from top to bottom. */
export function ranksInOrder(rows: RowView, ranks: number): number[] {
  const all = [...Array(ranks).keys()];
  const places = new Map(rows.order.map((rank, place) => [rank, place]));
  const sorted = all.toSorted((one, other) => (places.get(one) ?? one) - (places.get(other) ?? other));
  const pinned = rows.pinned.filter((rank) => rank < ranks);
  return [...pinned, ...sorted.filter((rank) => !pinned.includes(rank))];
}

/** Move a rank up or down among those that are pinned as it is. */
export function moved(rows: RowView, ranks: number, rank: number, by: 1 | -1): RowView {
  const order = ranksInOrder(rows, ranks);
  const place = order.indexOf(rank);
  const other = order[place + by];
  if (other === undefined || rows.pinned.includes(rank) !== rows.pinned.includes(other)) return rows;
  [order[place], order[place + by]] = [other, rank];
  if (rows.pinned.includes(rank)) return { ...rows, pinned: order.slice(0, rows.pinned.length) };
  const isPlain = order.slice(rows.pinned.length).every((each, index, all) => index === 0 || all[index - 1] < each);
  return { ...rows, order: isPlain ? [] : order };
}

export function toggled(list: number[], rank: number): number[] {
  return list.includes(rank) ? list.filter((each) => each !== rank) : [...list, rank];
}

/** Rows higher or lower by a step. */
export function zoomedRows(rows: RowView, by: 1 | -1): RowView {
  return { ...rows, zoom: Math.min(HIGHEST, Math.max(1, Number((rows.zoom * ZOOM_STEP ** by).toPrecision(4)))) };
}
