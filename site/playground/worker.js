// Runs simulations, so that the page never waits. Answers carry the number of the request; a newer request drops what is left of older ones.
let wasm;
let newest = 0;
const queue = [];

function text(letter, name) {
  let word = "";
  for (let index = 0; ; index += 1) {
    const code = letter(name, index);
    if (code === 0) return word;
    word += String.fromCodePoint(code);
  }
}

function names(letter) {
  const all = [];
  for (;;) {
    const name = text(letter, all.length);
    if (name === "") return all;
    all.push(name);
  }
}

function values(count) {
  return Array.from({ length: count }, (_, index) => wasm.value(index));
}

function next() {
  const job = queue.shift();
  if (!job) return;
  if (job.request === newest) {
    const { kind, sender, loss, burst, interval, rtt, messages } = job;
    const began = performance.now();
    const count =
      kind === "sequence"
        ? wasm.sequence(sender, interval, rtt)
        : wasm.distribution(sender, loss, burst, interval, rtt, messages);
    postMessage({ ...job, values: values(count), took: performance.now() - began });
  }
  // Lets newer requests in between two jobs.
  setTimeout(next);
}

onmessage = async ({ data }) => {
  if (data.module) {
    wasm = (await WebAssembly.instantiate(data.module, {})).exports;
    postMessage({ senders: names(wasm.sender_letter), causes: names(wasm.cause_letter) });
    return;
  }
  newest = data.request;
  const isIdle = queue.length === 0;
  queue.length = 0;
  queue.push(...data.jobs);
  if (isIdle) setTimeout(next);
};
