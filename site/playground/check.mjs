// Checks the built page: `node site/playground/check.mjs PAGE`. The module gives the numbers of expected.json, which a test of the crate demands of
// the same code compiled for this machine; it imports nothing, and the page loads nothing.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const page = readFileSync(process.argv[2], "utf8");
const expected = JSON.parse(readFileSync(new URL("expected.json", import.meta.url), "utf8"));

const outside = page.match(/(?:src|href|url|fetch|import)\s*[=(]\s*["']?(?:https?:)?\/\/[^"' ]*/g);
assert.equal(outside, null, "the page loads something from elsewhere");

const [, packed] = page.match(/<script type="text\/plain" id="module">([^<]*)<\/script>/);
const module = new WebAssembly.Module(gunzipSync(Buffer.from(packed, "base64")));
assert.deepEqual(WebAssembly.Module.imports(module), []);
const { exports } = new WebAssembly.Instance(module, {});

const began = performance.now();
const ours = expected.map((_, sender) => {
  exports.distribution(sender, 50, 1, 250, 100, 2000);
  return expected[sender].map((_, index) => exports.value(index));
});
const first = performance.now() - began;
assert.deepEqual(ours, expected);

const again = performance.now();
for (const sender of expected.keys()) {
  assert.ok(exports.distribution(sender, 50, 1, 250, 100, 20000) > 8);
  assert.ok(exports.sequence(sender, 250, 100) > 20);
}
const all = performance.now() - again;
const memory = exports.memory.buffer.byteLength / 2 ** 20;
assert.ok(memory < 64, `${memory} MiB`);
console.log(`2,000 messages each in ${first.toFixed(0)} ms, 20,000 in ${all.toFixed(0)} ms, ${memory.toFixed(0)} MiB`);
