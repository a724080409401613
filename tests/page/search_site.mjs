// Asks the search of a built site as its pages do, and prints what it answers: node search_site.mjs SITE QUERY...

import { readFileSync } from "node:fs";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const textOf = (name) => readFileSync(`${site}/search/${name}`, "utf8");
const replies = [];
const worker = vm.createContext({
  fetch: async (name) => ({ json: async () => JSON.parse(textOf(name)) }),
  postMessage: (reply) => replies.push(reply),
});
worker.self = worker;
worker.importScripts = (name) => vm.runInContext(textOf(name), worker, { filename: name });
worker.importScripts("worker.js");
await worker.onmessage({ data: { init: true } });
for (const query of queries) await worker.onmessage({ data: { query } });
console.log(JSON.stringify(replies.filter(({ results }) => results).map(({ results }) => results)));
