// The page of `festina web` and its module in Chromium while the server ends, comes again and has many connections:
// `node crates/web/tests/module.mjs target/release/festina`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { until, withPage } from "../../../site/chromium.mjs";

const [program] = process.argv.slice(2);
let server;
async function serve(port) {
  server = spawn(program, ["web", "--listen", `127.0.0.1:${port}`, "--delay", "0ms", "--loss", "0%"], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface(server.stdout), "line");
  return line;
}
async function end(signal) {
  const gone = once(server, "exit");
  server.kill(signal);
  await gone;
}

const url = await serve("0");
const { port } = new URL(url);
try {
  await withPage(async ({ call, evaluate }) => {
    await call("Page.navigate", { url });
    await until("the channels are open", () => evaluate("window.connection?.isOpen"));

    // 100 more connections, each with an echo on a channel of its own.
    const echoed = await evaluate(`(async () => {
      const { connect } = await import("./festina-web.js");
      const one = async (_, index) => {
        const connection = connect({ offer: "offer", channels: { echo: {}, "up, repeated": { repeat: {} } } });
        await connection.ready;
        const { echo } = connection.channels;
        const reply = new Promise((got) => echo.addEventListener("message", ({ data }) => got(data), { once: true }));
        echo.send("make haste " + index);
        const text = await reply;
        connection.close();
        return text === "make haste " + index;
      };
      return (await Promise.all(Array.from({ length: 100 }, one))).filter(Boolean).length;
    })()`);
    assert.equal(echoed, 100);

    // A server that says goodbye, and one that does not: the page comes back by itself.
    for (const [signal, patience] of [["SIGINT", 5_000], ["SIGKILL", 30_000]]) {
      const before = await evaluate("ways.push.late.length");
      await end(signal);
      const ended = Date.now();
      await until(`the page notices ${signal}`, () => evaluate("!connection.isOpen || connection.raw.iceConnectionState !== 'connected'"), patience);
      console.log(`${signal}: noticed after ${Date.now() - ended} ms`);
      await serve(port);
      const again = Date.now();
      await until("the page comes back", () => evaluate(`connection.isOpen && ways.push.late.length > ${before} + 10`), 30_000);
      console.log(`${signal}: messages again ${Date.now() - again} ms after the server was back`);
    }

    // An offer that the server refuses ends the attempts.
    const refused = await evaluate(`(async () => {
      const { connect } = await import("./festina-web.js");
      const connection = connect({ offer: "nowhere", channels: { x: {} } });
      const reasons = [];
      connection.addEventListener("lost", ({ detail }) => reasons.push(detail.reason));
      const outcome = await connection.ready.catch(({ message }) => message);
      return [outcome, reasons];
    })()`);
    assert.deepEqual(refused, ["the connection was not made", ["the server answers 404"]]);
  });
} finally {
  await end("SIGKILL");
}
console.log("100 connections, a server that ends in both ways and a refusal work");
