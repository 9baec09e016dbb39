"use strict";
// The sliders' stops. A setting is the index of its stop; the address bar keeps the values.
const STOPS = {
  loss: [0, 1, 2, 5, 10, 20, 30, 50, 70, 100, 150, 200],
  burst: [1, 2, 3, 4, 6, 8],
  interval: [10, 16, 20, 33, 50, 75, 100, 150, 250, 500, 1000, 2000],
  rtt: [10, 20, 30, 50, 75, 100, 150, 200, 300, 500],
};
// The largest values that the simulation takes.
const MOST = { loss: 500, burst: 20, interval: 10000, rtt: 2000 };
const SHOWN = {
  loss: (permille) => `${permille / 10} %`,
  burst: (packets) => (packets === 1 ? "independent" : `${packets} on average`),
  interval: (ms) => (ms < 1000 ? `${ms} ms` : `${ms / 1000} s`),
  rtt: (ms) => `${ms} ms`,
};
const PRESETS = [
  ["Signalling, 4 messages a second", { loss: 50, burst: 1, interval: 250, rtt: 100 }],
  ["A game over Wi-Fi, 30 a second", { loss: 20, burst: 2, interval: 33, rtt: 50 }],
  ["Typing over a mobile network", { loss: 10, burst: 3, interval: 150, rtt: 200 }],
  ["A remote pointer, 60 a second", { loss: 10, burst: 1, interval: 16, rtt: 30 }],
  ["A sensor, one message a second", { loss: 100, burst: 1, interval: 1000, rtt: 300 }],
];
// Few messages while a slider moves, many when it rests.
const MESSAGES = [2000, 20000];
const REST_MS = 250;
const DASHES = ["7 3", "2 3", "9 3 2 3", ""];
const SVG = "http://www.w3.org/2000/svg";

const by = (id) => document.getElementById(id);
const settings = { ...PRESETS[0][1] };
let senders = [];
let causes = [];
let worker;
let request = 0;
let resting;
let results = {};

function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const stroke = (sender) => ({ stroke: color(sender), "stroke-width": sender === senders.length - 1 ? 3 : 2, "stroke-dasharray": DASHES[sender] });
const color = (sender) => `var(--c${sender})`;
const digits = (number) => (number >= 100 ? number.toFixed(0) : number.toFixed(number >= 10 ? 1 : 2));
const time = (ms) => (ms < 0 ? "–" : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`);

// A value between the stops, such as that of a plan, becomes a stop.
function readAddress() {
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    const value = Math.round(Number(text));
    if (!(name in STOPS) || !(value >= STOPS[name][0] && value <= MOST[name])) continue;
    if (!STOPS[name].includes(value)) STOPS[name] = [...STOPS[name], value].sort((one, other) => one - other);
    settings[name] = value;
  }
}

function showSettings() {
  for (const name of Object.keys(STOPS)) {
    const text = SHOWN[name](settings[name]);
    by(name).value = STOPS[name].indexOf(settings[name]);
    by(name).setAttribute("aria-valuetext", text);
    by(`${name}-is`).textContent = text;
  }
  const same = (preset) => Object.entries(preset).every(([name, value]) => settings[name] === value);
  by("preset").value = String(PRESETS.findIndex(([, preset]) => same(preset)));
}

function ask(messages) {
  request += 1;
  results = { messages, distributions: [], sequences: [], took: 0 };
  by("progress").value = 0;
  const common = { request, ...settings, messages };
  const of = (kind) => senders.map((_, sender) => ({ kind, sender, ...common }));
  worker.postMessage({ request, jobs: [...of("distribution"), ...of("sequence")] });
}

function changed() {
  history.replaceState(null, "", `#${new URLSearchParams(settings)}`);
  showSettings();
  ask(MESSAGES[0]);
  clearTimeout(resting);
  resting = setTimeout(ask, REST_MS, MESSAGES[1]);
}

function answered({ data }) {
  if (data.senders) {
    ({ senders, causes } = data);
    changed();
    return;
  }
  if (data.request !== request) return;
  results[data.kind === "sequence" ? "sequences" : "distributions"][data.sender] = data.values;
  results.took += data.took;
  const done = results.distributions.length + results.sequences.length;
  by("progress").value = done / (2 * senders.length);
  if (results.distributions.length === senders.length && data.kind === "distribution") {
    showDistribution();
    showTable();
  }
  if (done < 2 * senders.length) return;
  showSequence();
  const count = results.messages.toLocaleString("en");
  by("status").textContent = `${senders.length} × ${count} messages simulated in ${(results.took / 1000).toFixed(2)} s`;
  document.body.dataset.messages = results.messages;
}

// The distributions, each as [delay, share that takes longer].
function steps(sender) {
  const values = results.distributions[sender].slice(8);
  const points = [];
  for (let index = 0; index + 1 < values.length; index += 2) points.push([values[index], values[index + 1]]);
  return points;
}

function showDistribution() {
  const width = Math.max(320, Math.min(960, by("distribution").clientWidth));
  const [left, right, top, bottom] = [46, 12, 10, 40];
  const height = width < 600 ? 280 : 330;
  const least = 0.0005;
  const lowest = settings.rtt / 2;
  const highest = Math.max(lowest * 10, ...senders.map((_, sender) => results.distributions[sender][5]));
  const x = (ms) => left + ((width - left - right) * Math.log(ms / lowest)) / Math.log(highest / lowest);
  const y = (share) => top + ((height - top - bottom) * Math.log(Math.max(share, least))) / Math.log(least);
  const told = senders.map((name, sender) => `${name}: 99 % within ${time(results.distributions[sender][3])}`);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Share of messages that take longer than a time. ${told.join("; ")}` });
  for (const [share, label] of [[1, "all"], [0.1, "10 %"], [0.01, "1 %"], [0.001, "0.1 %"]]) {
    svg.append(element("line", { x1: left, x2: width - right, y1: y(share), y2: y(share), stroke: "var(--line)" }));
    svg.append(element("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, label));
  }
  let free = 0;
  for (const ms of [5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 60000]) {
    if (ms < lowest || ms > highest) continue;
    svg.append(element("line", { x1: x(ms), x2: x(ms), y1: top, y2: height - bottom, stroke: "var(--line)" }));
    if (x(ms) - 24 < free) continue;
    svg.append(element("text", { x: x(ms), y: height - bottom + 16, "text-anchor": "middle" }, time(ms)));
    free = x(ms) + 24;
  }
  svg.append(element("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "time from write to delivery"));
  senders.forEach((_, sender) => {
    let path = `M${x(lowest)} ${y(1)}`;
    for (const [ms, later] of steps(sender)) {
      path += `H${x(ms).toFixed(1)}V${y(later).toFixed(1)}`;
      if (later < least) break;
    }
    svg.append(element("path", { d: path, fill: "none", ...stroke(sender) }));
  });
  by("distribution").replaceChildren(svg);
}

function showTable() {
  const rows = senders.map((name, sender) => {
    const [, undelivered, , p99, p999, longest, packets, bytes] = results.distributions[sender];
    const row = document.createElement("tr");
    const head = document.createElement("td");
    const mark = element("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    mark.append(element("line", { x1: 0, x2: 26, y1: 5, y2: 5, ...stroke(sender) }));
    head.append(mark, name);
    row.append(head);
    for (const text of [time(p99), time(p999), time(longest), digits(bytes), digits(packets), String(undelivered)]) {
      row.append(Object.assign(document.createElement("td"), { textContent: text }));
    }
    return row;
  });
  by("rows").replaceChildren(...rows);
}

function showSequence() {
  const width = Math.max(320, Math.min(960, by("sequence").clientWidth));
  const [left, right, each, gap] = [8, 12, 46, 58];
  const rows = senders.map((_, sender) => {
    const [delay, ...values] = results.sequences[sender];
    const packets = [];
    for (let index = 0; index + 3 < values.length; index += 4) packets.push(values.slice(index, index + 4));
    return { delay, packets };
  });
  const begin = -2 * settings.interval;
  const end = Math.max(...rows.map(({ delay }) => delay)) * 1.05 + settings.rtt / 2;
  const x = (ms) => left + ((width - left - right) * (ms - begin)) / (end - begin);
  const height = rows.length * (each + gap) + 26;
  const told = senders.map((name, sender) => `${name}: after ${time(rows[sender].delay)}`);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `When the lost message arrives. ${told.join("; ")}` });
  rows.forEach(({ delay, packets }, sender) => {
    const above = sender * (each + gap) + 38;
    const below = above + each;
    const name = element("text", { x: left, y: above - 22, class: "name" }, senders[sender]);
    name.append(element("tspan", { dx: 8, "font-weight": 400 }, `after ${time(delay)}`));
    svg.append(name);
    for (const y of [above, below]) svg.append(element("line", { x1: x(begin), x2: x(end), y1: y, y2: y, stroke: "var(--soft)" }));
    let free = 0;
    for (const [back, left, arrived, cause] of packets) {
      if (left > end) continue;
      const [from, to] = back ? [below, above] : [above, below];
      const isLost = arrived === -1 && left < end - settings.rtt;
      const until = arrived === -1 ? left + settings.rtt / 2 : arrived;
      const brings = !back && Math.abs(arrived - delay) < 0.001 && cause >= 0;
      const part = isLost ? 0.5 : Math.min(1, (end - left) / (until - left));
      const [x2, y2] = [x(left + (until - left) * part), from + (to - from) * part];
      const stroke = back ? "var(--line)" : isLost || brings ? color(sender) : "var(--soft)";
      svg.append(element("line", { x1: x(left), y1: from, x2, y2, stroke, "stroke-width": back ? 1 : isLost || brings ? 2.5 : 1.2 }));
      if (isLost) svg.append(element("path", { d: `M${x2 - 4} ${y2 - 4}l8 8m0 -8l-8 8`, stroke: color(sender), "stroke-width": 2 }));
      if (brings) svg.append(element("circle", { cx: x(arrived), cy: below, r: 5, fill: color(sender) }));
      if (cause >= 0 && x(left) > free) {
        svg.append(element("text", { x: x(left), y: above - 5, "text-anchor": "middle" }, causes[cause]));
        free = x(left) + 44;
      }
    }
  });
  const y = height - 6;
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((ms) => x(begin + ms) - x(begin) > 64) ?? 10000;
  for (let ms = Math.ceil(begin / step) * step; ms <= end; ms += step) {
    svg.append(element("text", { x: Math.max(24, Math.min(width - 24, x(ms))), y, "text-anchor": "middle" }, ms < 0 ? `−${time(-ms)}` : time(ms)));
  }
  by("sequence").replaceChildren(svg);
}

async function begin() {
  const packed = Uint8Array.from(atob(by("module").textContent), (letter) => letter.charCodeAt(0));
  const bytes = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const module = await WebAssembly.compile(await bytes);
  // A page opened from a folder may start workers from a Blob alone.
  worker = new Worker(URL.createObjectURL(new Blob([by("worker").textContent], { type: "text/javascript" })));
  worker.onmessage = answered;
  worker.onerror = (event) => failed(event.message);
  worker.postMessage({ module });
}

function failed(why) {
  by("status").textContent = `The simulation does not run in this browser: ${why}`;
}

readAddress();
for (const [name, stops] of Object.entries(STOPS)) {
  Object.assign(by(name), { min: 0, max: stops.length - 1, step: 1 });
  by(name).addEventListener("input", () => {
    settings[name] = stops[by(name).valueAsNumber];
    changed();
  });
}
by("preset").append(...[["Own settings"], ...PRESETS].map(([name], index) => new Option(name, String(index - 1))));
by("preset").addEventListener("change", () => {
  Object.assign(settings, PRESETS[Number(by("preset").value)]?.[1]);
  changed();
});
addEventListener("hashchange", () => {
  readAddress();
  changed();
});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width || results.sequences?.length !== senders.length) return;
  width = innerWidth;
  showDistribution();
  showSequence();
});
by("form").addEventListener("submit", (event) => event.preventDefault());
showSettings();
begin().catch((error) => failed(error.message));
