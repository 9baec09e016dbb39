// The page of `festina web` in Chromium, behind its emulated network: `node crates/web/tests/web.mjs target/release/festina [FOLDER [SECONDS]]`.
// Screenshots go into the folder.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { until, withPage } from "../../../site/chromium.mjs";

const [program, folder, seconds = "20"] = process.argv.slice(2);
const server = spawn(program, ["web", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
try {
  const [url] = await once(createInterface(server.stdout), "line");
  await withPage(async ({ call, evaluate, said }) => {
    const began = performance.now();
    await call("Page.navigate", { url });
    await until("both ways have messages", () => evaluate("window.connection?.isOpen && ways.push.late.length > 20 && ways.socket.late.length > 20"));
    console.log(`delays move after ${((performance.now() - began) / 1000).toFixed(1)} s`);
    await sleep(Number(seconds) * 1000);
    console.log(await evaluate("document.body.innerText"));

    // Both pass the network of 50 ms each way, and a loss delays those behind it in the stream alone.
    const measured = await evaluate(`Object.entries(ways).map(([id, { late, fastest }]) =>
      [id, fastest, late.filter((delay) => delay - fastest > 70).length / late.length])`);
    for (const [id, fastest] of measured) assert.ok(fastest > 48 && fastest < 100, `${id}: the fastest message took ${fastest} ms`);
    const share = Object.fromEntries(measured.map(([id, , late]) => [id, late]));
    console.log(`later than 70 ms: ${JSON.stringify(share)}`);
    assert.ok(share.socket > 0.05 && share.push < share.socket / 3, "the WebSocket's messages wait for lost ones");

    // A goodbye is answered.
    const isClean = await evaluate(`new Promise((done) => {
      const socket = new WebSocket(new URL("socket", location.href.replace(/^http/, "ws")));
      socket.onopen = () => socket.close(1000);
      socket.onclose = ({ wasClean }) => done(wasClean);
    })`);
    assert.equal(isClean, true);

    // With the keyboard alone: the figure is held, and one way is hidden.
    const press = async (key, code, windowsVirtualKeyCode, text) => {
      await call("Input.dispatchKeyEvent", { type: "keyDown", key, code, windowsVirtualKeyCode, text });
      await call("Input.dispatchKeyEvent", { type: "keyUp", key, code, windowsVirtualKeyCode });
    };
    await press("Tab", "Tab", 9);
    await press("Enter", "Enter", 13, "\r");
    assert.equal(await evaluate("document.activeElement.getAttribute('aria-pressed')"), "true");
    await press("Enter", "Enter", 13, "\r");
    for (let tabs = 0; tabs < 3; tabs += 1) await press("Tab", "Tab", 9);
    await press(" ", "Space", 32, " ");
    assert.equal(await evaluate("ways.push.shown.checked"), false);
    await press(" ", "Space", 32, " ");

    for (const scheme of ["light", "dark"]) {
      await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
      for (const width of [360, 768, 1280]) {
        await call("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
        await sleep(300);
        const wide = await evaluate("document.documentElement.scrollWidth");
        assert.ok(wide <= width, `at ${width} pixels the page is ${wide} wide`);
        const height = await evaluate("Math.ceil(document.documentElement.getBoundingClientRect().height)");
        const { data } = await call("Page.captureScreenshot", { captureBeyondViewport: true, clip: { x: 0, y: 0, width, height, scale: 1 } });
        if (folder) writeFileSync(join(folder, `web-${width}-${scheme}.png`), Buffer.from(data, "base64"));
      }
    }
    assert.deepEqual(said, []);
  });
} finally {
  const gone = once(server, "exit");
  server.kill("SIGINT");
  await gone;
}
console.log("the page shows both ways through the emulated network");
