// How long connections take to the server of `festina web` in Chromium, one after the other, from the call to the first open channel:
// `node crates/web/tests/opens.mjs URL NUMBER [OPTION OF CHROMIUM]...`. As many by the module as by a page without it.
import { until, withPage } from "../../../site/chromium.mjs";

const [url, number, ...options] = process.argv.slice(2);
await withPage(async ({ call, evaluate }) => {
  await call("Page.navigate", { url });
  await until("the page is there", () => evaluate("window.connection?.isOpen"));
  await evaluate("connection.close()");
  const times = await evaluate(`(async () => {
    const { connect } = await import("./festina-web.js");
    const byModule = async (hedge) => {
      const connection = connect({ offer: "offer", channels: { echo: { ordered: false } }, hedge });
      await connection.ready;
      return () => connection.close();
    };
    const byPage = async () => {
      const connection = new RTCPeerConnection();
      const channel = connection.createDataChannel("echo", { ordered: false });
      const open = new Promise((opened) => { channel.onopen = opened; });
      await connection.setLocalDescription();
      const response = await fetch("offer", { method: "POST", body: connection.localDescription.sdp });
      const text = await response.text();
      await connection.setRemoteDescription({ type: "answer", sdp: text.slice(text.indexOf("\\n") + 1) });
      await Promise.race([open, new Promise((over) => setTimeout(over, 20_000))]);
      return () => connection.close();
    };
    const ways = { "module": () => byModule(600), "module, two at once": () => byModule(0), "page": byPage };
    const times = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let round = 0; round < ${Number(number)}; round += 1) {
      for (const [way, make] of Object.entries(ways)) {
        const begun = performance.now();
        const close = await make();
        times[way].push(performance.now() - begun);
        close();
      }
    }
    return times;
  })()`);
  for (const [way, all] of Object.entries(times)) {
    all.sort((a, b) => a - b);
    const at = (share) => `${Math.round(all[Math.min(all.length - 1, Math.floor(all.length * share))])} ms`;
    console.log(`${way}: ${all.length} connections, half within ${at(0.5)}, 90 % ${at(0.9)}, 99 % ${at(0.99)}, longest ${at(1)}`);
  }
}, options);
