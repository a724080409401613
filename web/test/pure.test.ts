import assert from "node:assert/strict";
import { test } from "node:test";
import { unzigzag, varints } from "../src/reading";
import { formatList, formatPlace, parseList, parsePlace, parseTime } from "../src/permalink";
import { moved, plainRows, ranksInOrder, toggled, zoomedRows } from "../src/row_view";
import { grouped, niceStep, Scale, showTime, ticks } from "../src/scale";
import { parseQuery } from "../src/search";

test("numbers of variable length, beyond 32 bits too", () => {
  const bytes = Uint8Array.from([0x00, 0x01, 0x7f, 0x80, 0x01, 0xac, 0x02, 0x80, 0x80, 0x80, 0x80, 0x80, 0x08]);
  assert.deepEqual([...varints(bytes, 0, bytes.length, 6)], [0, 1, 127, 128, 300, 2 ** 38]);
  assert.deepEqual([...varints(bytes, 3, 2, 1)], [128]);
});

test("signs", () => {
  assert.deepEqual([0, 1, 2, 3, 4].map(unzigzag), [0, -1, 1, -2, 2]);
  assert.equal(unzigzag(2 ** 40 - 1), -(2 ** 39));
});

test("what people search for", () => {
  assert.deepEqual(parseQuery("r3 mb7 B"), { rank: 3, microbatch: 7, op: "B" });
  assert.deepEqual(parseQuery("rank 3, microbatch 7"), { rank: 3, microbatch: 7 });
  assert.deepEqual(parseQuery("F12 c1"), { op: "F", microbatch: 12, chunk: 1 });
  assert.deepEqual(parseQuery("s5"), { stage: 5 });
  assert.deepEqual(parseQuery("stage 5", true), { rank: 5 });
  assert.deepEqual(parseQuery("12"), { microbatch: 12 });
  assert.equal(parseQuery("hello"), null);
  assert.equal(parseQuery("  "), null);
});

test("addresses say the same when read back", () => {
  assert.deepEqual(parsePlace("#rank=3&mb=7&t=120ms"), { rank: 3, microbatch: 7, time: 120e6 });
  const place = { plan: 1, rank: 3, microbatch: 7, chunk: 1, op: "B", time: 1.25e9, span: 4e6 };
  assert.deepEqual(parsePlace(formatPlace(place)), place);
  assert.deepEqual(parsePlace("#rank=-1&mb=x&t=soon&op=Q"), {});
  assert.equal(formatPlace({}), "");
  assert.deepEqual(["1.5s", "20us", "7", "3 ms"].map(parseTime), [1.5e9, 20e3, 7e6, 3e6]);
});

test("addresses hold all that is seen", () => {
  const place = {
    plan: 1, beside: [0, 1, 3], pinned: [5], folded: [0, 1, 2, 7], order: [5, 0, 2, 1], ownAxes: true, causes: false, path: true, memory: false,
    rank: 3, at: 123_456_789, range: { from: 1, to: 9_876_543_211 }, rows: 2.25,
  };
  assert.deepEqual(parsePlace(formatPlace(place)), place);
  assert.deepEqual(parsePlace("#range=9ms..1ms&rows=99&causes=maybe&pin=1-&fold=3-1"), {});
});

test("lists of ranks, in short", () => {
  assert.equal(formatList([0, 1, 2, 5, 4, 9]), "0-2,5,4,9");
  assert.deepEqual(parseList("0-2,5,4,9"), [0, 1, 2, 5, 4, 9]);
  for (const text of ["", "a", "1,,2", "3-1", "0-99999"]) assert.equal(parseList(text), null);
});

test("rows are pinned, moved and made higher", () => {
  const pinned = { ...plainRows(), pinned: [2] };
  assert.deepEqual(ranksInOrder(pinned, 4), [2, 0, 1, 3]);
  const lower = moved(pinned, 4, 0, 1);
  assert.deepEqual(ranksInOrder(lower, 4), [2, 1, 0, 3]);
  assert.deepEqual(moved(lower, 4, 0, -1), pinned);
  assert.equal(moved(pinned, 4, 0, -1), pinned, "what is pinned stays on top");
  assert.equal(moved(pinned, 4, 3, 1), pinned);
  assert.deepEqual(toggled(toggled([1], 2), 1), [2]);
  assert.equal(zoomedRows(plainRows(), -1).zoom, 1);
  assert.equal(zoomedRows(zoomedRows(plainRows(), 1), 1).zoom, 2.25);
});

test("axes have round ticks", () => {
  assert.deepEqual([0.3, 1, 4, 51, 120].map(niceStep), [0.5, 1, 5, 100, 200]);
  const marks = ticks(new Scale(0, 1000, { from: 0, to: 1.5e9 }), 100);
  assert.deepEqual(marks.slice(0, 3).map((each) => each.label), ["0 ms", "200 ms", "400 ms"]);
  const close = ticks(new Scale(0, 1000, { from: 1e9, to: 1e9 + 500 }), 100);
  assert.ok(close.length > 4);
  assert.equal(new Set(close.map((each) => each.label)).size, close.length);
});

test("times and numbers as people write them", () => {
  assert.equal(showTime(1_514_823_450), "1,514.8 ms");
  assert.equal(showTime(15_148_234_500), "15.148 s");
  assert.equal(showTime(2_345), "2.345 µs");
  assert.equal(showTime(0), "0 ns");
  assert.equal(grouped(-1234.56, 1), "−1,234.6");
  assert.equal(grouped(-0.01, 1), "0.0");
});
