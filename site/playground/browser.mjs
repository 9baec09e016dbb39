// Opens the built page in Chromium, from its file, and uses it: `node site/playground/browser.mjs PAGE [FOLDER]`. Screenshots go into the folder.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { until, withPage } from "../chromium.mjs";

const [page, folder] = process.argv.slice(2);
await withPage(async ({ call, evaluate, said }) => {
  const size = (width) => call("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
  const complete = () => until("20,000 messages are simulated", () => evaluate("document.body.dataset.messages === '20000'"));

  await size(1280);
  const began = performance.now();
  await call("Page.navigate", { url: `file://${resolve(page)}` });
  await until("a figure is there", () => evaluate("document.querySelectorAll('#distribution path').length === 4"));
  const first = performance.now() - began;
  await complete();
  const all = performance.now() - began;

  // With the keyboard alone: one stop to the right is 250 to 500 ms, and the address says so.
  await evaluate("document.getElementById('interval').focus()");
  for (const type of ["keyDown", "keyUp"]) {
    await call("Input.dispatchKeyEvent", { type, key: "ArrowRight", code: "ArrowRight", windowsVirtualKeyCode: 39 });
  }
  await until("the address has the setting", () => evaluate("location.hash.includes('interval=500')"));
  await call("Page.reload");
  await until("the setting is kept", () => evaluate("document.getElementById('interval-is')?.textContent === '500 ms'"));
  await complete();

  // What a screen reader is told.
  const { nodes } = await call("Accessibility.getFullAXTree");
  const named = (role) => nodes.filter((node) => node.role?.value === role).map((node) => node.name?.value ?? "");
  assert.equal(named("slider").length, 4);
  assert.ok(named("slider").every((name) => name.length > 3), `each slider has a name: ${named("slider")}`);
  const figures = [...named("image"), ...named("img")];
  assert.ok(figures.filter((name) => name.includes("Festina")).length >= 2, `figures say what they show: ${figures}`);

  for (const width of [360, 768, 1280]) {
    await size(width);
    await sleep(300);
    const wide = await evaluate("document.documentElement.scrollWidth");
    assert.ok(wide <= width, `at ${width} pixels the page is ${wide} wide`);
    const { data } = await call("Page.captureScreenshot", { captureBeyondViewport: true, clip: { x: 0, y: 0, width, height: await evaluate("document.body.scrollHeight"), scale: 1 } });
    if (folder) writeFileSync(join(folder, `playground-${width}.png`), Buffer.from(data, "base64"));
  }
  // A link with values between the stops, as of `festina lab view`.
  await call("Page.navigate", { url: "about:blank" });
  await call("Page.navigate", { url: `file://${resolve(page)}#loss=25&rtt=80&interval=40` });
  await complete();
  const shown = await evaluate("['loss', 'rtt', 'interval'].map((name) => document.getElementById(name + '-is').textContent)");
  assert.deepEqual(shown, ["2.5 %", "80 ms", "40 ms"]);
  assert.deepEqual(said, []);
  console.log(`first figure after ${first.toFixed(0)} ms, complete after ${all.toFixed(0)} ms`);
});
