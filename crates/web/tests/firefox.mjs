// Opens the page of `festina web` in Firefox: `node --experimental-websocket crates/web/tests/firefox.mjs URL`. The address must not be a loopback one, to
// which Firefox makes no data channels.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { until } from "../../../site/chromium.mjs";

const [url] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "festina-firefox-"));
const browser = spawn(process.env.FIREFOX ?? "firefox-esr", ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"], {
  stdio: ["ignore", "ignore", "pipe"],
  env: { ...process.env, HOME: profile },
});
const gone = once(browser, "exit");
try {
  // WebDriver BiDi, without a driver.
  const address = await new Promise((found, lost) => {
    createInterface(browser.stderr).on("line", (line) => {
      const [, address] = line.match(/BiDi listening on (\S+)/) ?? [];
      if (address) found(address);
    });
    gone.then(() => lost(new Error("Firefox has ended")));
  });
  const socket = new WebSocket(`${address}/session`);
  await new Promise((open, fail) => Object.assign(socket, { onopen: open, onerror: () => fail(new Error("no session")) }));
  const waiting = new Map();
  socket.onmessage = ({ data }) => {
    const answer = JSON.parse(data);
    waiting.get(answer.id)?.(answer);
  };
  const call = async (method, params) => {
    const id = waiting.size + 1;
    const answer = await new Promise((got) => {
      waiting.set(id, got);
      socket.send(JSON.stringify({ id, method, params }));
    });
    assert.equal(answer.type, "success", `${method}: ${answer.message}`);
    return answer.result;
  };
  await call("session.new", { capabilities: {} });
  const [{ context }] = (await call("browsingContext.getTree", {})).contexts;
  await call("browsingContext.navigate", { context, url, wait: "complete" });
  const evaluate = async (expression) => {
    const { type, result, exceptionDetails } = await call("script.evaluate", { expression, target: { context }, awaitPromise: true });
    assert.equal(type, "success", exceptionDetails?.text);
    return result.value;
  };
  await until("messages come and go", () => evaluate("Boolean(window.ways && Object.values(ways).every(({ late }) => late.length > 20))"));
  const echoed = await evaluate(`(async () => {
    const channel = connection.raw.createDataChannel("echo", { ordered: false });
    channel.binaryType = "arraybuffer";
    await new Promise((open) => { channel.onopen = open; });
    const ask = (data) => new Promise((got) => { channel.onmessage = ({ data }) => got(data); channel.send(data); });
    const large = new Uint8Array(60_000).map((_, index) => index % 251);
    const back = new Uint8Array(await ask(large));
    const told = [await ask("make haste"), back.length, back.every((byte, index) => byte === large[index])];
    const closed = new Promise((done) => { channel.onclose = done; });
    channel.close();
    await closed;
    return JSON.stringify([...told, channel.readyState]);
  })()`);
  assert.deepEqual(JSON.parse(echoed), ["make haste", 60_000, true, "closed"]);
  console.log(await evaluate("document.body.innerText"));
  socket.close();
} finally {
  browser.kill();
  await gone;
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
console.log("Firefox: all ways, text, a large message and the end of a channel work");
