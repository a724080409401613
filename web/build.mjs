// Builds the page's one script and one style into the package; with --check it says whether they are up to date, with
// --tests it builds the tests of pure modules instead.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const assets = here("../src/evenflow/report/assets/");

function put(name, content) {
  if (!process.argv.includes("--check")) writeFileSync(`${assets}${name}`, content);
  else if (readFileSync(`${assets}${name}`, "utf8") !== content) {
    console.error(`${name} is not what web/src makes: run make page`);
    process.exitCode = 1;
  }
}

if (process.argv.includes("--tests")) {
  await build({
    entryPoints: readdirSync(here("test")).map((name) => here(`test/${name}`)),
    outdir: here("built-tests"),
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
  });
} else {
  const script = await build({
    entryPoints: [here("src/main.ts")],
    bundle: true,
    write: false,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
  });
  // In a page the script stands between tags: nothing in it may look like the end of one.
  put("report.js", script.outputFiles[0].text.replaceAll("</", "<\\/"));
  const style = ["viewer.css", "report.css"].map((name) => readFileSync(here(`src/${name}`), "utf8")).join("\n");
  const small = await build({ stdin: { contents: style, loader: "css" }, write: false, minify: true, charset: "utf8" });
  put("report.css", small.outputFiles[0].text);
}
