// examples/game.rs with a browser and two native players: `node crates/web/tests/game.mjs target/release/examples/game [FOLDER]`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { until, withPage } from "../../../site/chromium.mjs";

const [program, folder] = process.argv.slice(2);
const started = [];
function start(...words) {
  const process = spawn(program, words, { stdio: ["ignore", "pipe", "inherit"] });
  started.push(process);
  const lines = [];
  createInterface(process.stdout).on("line", (line) => lines.push(line));
  return { process, lines };
}
try {
  const server = start("serve", "127.0.0.1:0", "127.0.0.1:0");
  await until("the server listens", () => server.lines.length === 2);
  const play = server.lines[1].split(" ").slice(1);
  const natives = [start(...play), start(...play)];
  await withPage(async ({ call, evaluate, said }) => {
    await call("Emulation.setDeviceMetricsOverride", { width: 360, height: 700, deviceScaleFactor: 1, mobile: true });
    await call("Page.navigate", { url: server.lines[0] });
    await until("the page sees three dots", () => evaluate("window.seen?.().dots.length === 3"));
    for (const { lines } of natives) await until("a native player sees three dots", () => lines.at(-1) === "3 dots");

    // The native players' dots move, and the browser's by its keys.
    const before = await evaluate("seen()");
    await evaluate("document.getElementById('field').focus()");
    for (let presses = 0; presses < 8; presses += 1) {
      await call("Input.dispatchKeyEvent", { type: "keyDown", key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
      await call("Input.dispatchKeyEvent", { type: "keyUp", key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
    }
    await sleep(700);
    const after = await evaluate("seen()");
    const moved = before.dots.map(([number, { x, y }], index) => [number, after.dots[index][1].x - x, after.dots[index][1].y - y]);
    for (const [number, x, y] of moved) {
      if (number === after.own) assert.ok(Math.abs(x - 0.2) < 0.001 && y === 0, `the browser's dot moved by ${x}, ${y}`);
      else assert.ok(Math.hypot(x, y) > 0.05, `dot ${number} moved by ${x}, ${y}`);
    }
    if (folder) writeFileSync(join(folder, "game.png"), Buffer.from((await call("Page.captureScreenshot")).data, "base64"));
    assert.ok((await evaluate("document.documentElement.scrollWidth")) <= 360);

    // Who leaves takes the dot along.
    natives[0].process.kill("SIGINT");
    await until("the page sees two dots", () => evaluate("seen().dots.length === 2"), 5_000);
    assert.deepEqual(said, []);
  });
  await until("the native player is alone", () => natives[1].lines.at(-1) === "1 dots");
} finally {
  for (const process of started) {
    if (process.exitCode !== null || process.signalCode !== null) continue;
    const gone = once(process, "exit");
    process.kill("SIGKILL");
    await gone;
  }
}
console.log("a browser and native players see one another");
