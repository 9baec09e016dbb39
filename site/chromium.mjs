// Headless Chromium, driven through pipes.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

// Polls until `is` returns something true, and returns that.
export async function until(what, is, patience = 60_000) {
  for (const end = Date.now() + patience; ; await sleep(20)) {
    const value = await is();
    if (value) return value;
    assert.ok(Date.now() < end, what);
  }
}

// Runs `use` with an empty page, with `more` options of the command line: `call` sends a command of the DevTools protocol, `evaluate` runs a script in the page, `said` are its errors.
export async function withPage(use, more = []) {
  const profile = mkdtempSync(join(tmpdir(), "festina-chromium-"));
  const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`, ...more];
  const browser = spawn(process.env.CHROMIUM ?? "chromium", [...options, "about:blank"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    // It leaves folders there.
    env: { ...process.env, TMPDIR: profile },
  });
  const [, , , commands, answers] = browser.stdio;
  try {
    const waiting = new Map();
    const said = [];
    let text = "";
    answers.setEncoding("utf8").on("data", (part) => {
      const messages = (text + part).split("\0");
      text = messages.pop();
      for (const { id, result, error, method, params } of messages.map((message) => JSON.parse(message))) {
        if (id) waiting.get(id)(error ? Promise.reject(new Error(error.message)) : result);
        if (method === "Runtime.exceptionThrown") said.push(params.exceptionDetails.text);
        if (method === "Log.entryAdded" && params.entry.level === "error") said.push(params.entry.text);
      }
    });
    let sessionId;
    let last = 0;
    const call = (method, params = {}) =>
      new Promise((answer) => {
        last += 1;
        waiting.set(last, answer);
        commands.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
      });
    const { targetId } = await call("Target.createTarget", { url: "about:blank" });
    ({ sessionId } = await call("Target.attachToTarget", { targetId, flatten: true }));
    await Promise.all(["Page", "Runtime", "Log"].map((domain) => call(`${domain}.enable`)));
    const evaluate = async (expression) => {
      const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
      return result.value;
    };
    await use({ call, evaluate, said });
  } finally {
    const gone = new Promise((ended) => browser.once("exit", ended));
    browser.kill();
    await gone;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
