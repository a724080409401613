// Search in the pages of this site. MkDocs' own worker drops Chinese words, since its trimmer takes them for punctuation,
// and its Chinese one needs a dictionary that browsers do not have. Here a run of Chinese characters is found by its pairs
// and triples: 重计算 by 重计, 计算 and 重计算. main.js sends {init} once and {query} at every key.
importScripts("lunr.js");

const RUN = /\p{Script=Han}+|[\p{L}\p{N}_]+/gu;
const HAN = /^\p{Script=Han}/u;
const MOST_RESULTS = 50;
let index = null;
const pages = new Map();

function grams(run, length) {
  const characters = [...run];
  const count = Math.max(1, characters.length - length + 1);
  return Array.from({ length: count }, (_, start) => characters.slice(start, start + length).join(""));
}

function words(text, lengths) {
  const runs = text.toLowerCase().normalize("NFKC").match(RUN) ?? [];
  return runs.flatMap((run) => (HAN.test(run) ? [...new Set(lengths(run).flatMap((length) => grams(run, length)))] : [run]));
}

const indexed = (text) => words(text, () => [1, 2, 3]);
const asked = (text) => words(text, (run) => [Math.min(3, [...run].length)]).filter((word) => lunr.stopWordFilter(word));

function build(entries) {
  index = lunr(function () {
    this.tokenizer = (text) => indexed(String(text ?? "")).map((word) => new lunr.Token(word, {}));
    this.pipeline.remove(lunr.trimmer); // the words are trimmed, and it takes away what is not Latin
    this.ref("location");
    this.field("title", { boost: 10 });
    this.field("text");
    for (const { location, title, text } of entries) {
      const boost = location.startsWith("api/") ? 0.3 : 1; // a field called layers is not what "layers" asks for
      this.add({ location, title, text: `${title} ${text}` }, { boost });
      pages.set(location, { location, title, text, summary: text.slice(0, 200) });
    }
  });
}

// Pages with all words; where there are none, pages with any, or with what the last begins.
function search(query) {
  const sought = asked(query);
  if (sought.length === 0) return [];
  const all = index.query((clauses) => {
    for (const word of sought) clauses.term(word, { presence: lunr.Query.presence.REQUIRED });
  });
  const any = () =>
    index.query((clauses) => {
      for (const word of sought) clauses.term(word, { boost: 10 });
      clauses.term(sought.at(-1), { usePipeline: false, wildcard: lunr.Query.wildcard.TRAILING });
    });
  return (all.length > 0 ? all : any()).slice(0, MOST_RESULTS).map(({ ref }) => pages.get(ref));
}

onmessage = async ({ data }) => {
  if (data.init) {
    const { config, docs } = await (await fetch("search_index.json")).json();
    build(docs);
    postMessage({ config });
    postMessage({ allowSearch: true });
  } else if (data.query) {
    postMessage({ results: search(data.query) });
  }
};
