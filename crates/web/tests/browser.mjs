// Opens the page of `festina web` in Chromium: `node crates/web/tests/browser.mjs URL [SCREENSHOT]`.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { until, withPage } from "../../../site/chromium.mjs";

const [url, screenshot, seconds = "3"] = process.argv.slice(2);
await withPage(async ({ call, evaluate }) => {
  await call("Page.navigate", { url });
  await until("the channel is open", () => evaluate("window.connection?.isOpen"));
  await sleep(Number(seconds) * 1000);
  console.log(await evaluate("document.body.innerText"));
  console.log(JSON.stringify(await evaluate(`(async () => {
    const told = { channels: Object.values(connection.channels).map((channel) => channel.stats()), connection: await connection.stats() };
    for (const [id, { late, fastest }] of Object.entries(ways)) {
      const sorted = late.map((delay) => delay - fastest).sort((a, b) => a - b);
      const at = (share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
      told[id] = { messages: sorted.length, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) };
    }
    return told;
  })()`)));

  // Another channel of the same association: text, bytes, an empty message, 60 kB, and the end of the channel.
  const echoed = await evaluate(`(async () => {
    const channel = connection.raw.createDataChannel("echo", { protocol: "test" });
    channel.binaryType = "arraybuffer";
    await new Promise((open, fail) => { channel.onopen = open; channel.onerror = fail; });
    const reply = () => new Promise((got) => { channel.onmessage = ({ data }) => got(data); });
    const ask = async (data) => { const got = reply(); channel.send(data); return got; };
    const large = new Uint8Array(60_000).map((_, index) => index % 251);
    const back = new Uint8Array(await ask(large));
    const told = { text: await ask("make haste"), empty: await ask(""), bytes: (await ask(new Uint8Array([1, 2]))).byteLength };
    told.large = back.length === large.length && back.every((byte, index) => byte === large[index]);
    const closed = new Promise((done) => { channel.onclose = done; });
    channel.close();
    await closed;
    told.closed = channel.readyState;
    return told;
  })()`);
  assert.deepEqual(echoed, { text: "make haste", empty: "", bytes: 2, large: true, closed: "closed" });

  // The network changes: ICE is restarted, the association goes on.
  const restarted = await evaluate(`(async () => {
    const before = ways.push.late.length;
    const { raw } = connection;
    await connection.restart();
    await new Promise((done) => setTimeout(done, 1500));
    return [connection.raw === raw, raw.iceConnectionState, ways.push.late.length - before > 20];
  })()`);
  assert.deepEqual(restarted, [true, "connected", true]);

  if (screenshot) {
    await call("Emulation.setDeviceMetricsOverride", { width: 1000, height: 700, deviceScaleFactor: 1, mobile: false });
    await sleep(500);
    writeFileSync(screenshot, Buffer.from((await call("Page.captureScreenshot")).data, "base64"));
  }

  // A reload opens another association.
  await call("Page.reload");
  await until("the channel opens after a reload", () => evaluate("window.connection?.isOpen && ways.push.late.length > 0"));
  console.log("text, bytes, empty and large messages, the end of a channel, a restart of ICE and a reload work");
});
