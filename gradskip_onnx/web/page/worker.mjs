/** Loads the runtime and the model and explains images, beside the page, so that the page never stands still. */

import { explain, open } from "./explainer.mjs";

const HERE = new URL(".", import.meta.url);
const MOST_THREADS = 8;

/** Ways of computing, the best first: how they are called, their files below runtime/, and ONNX Runtime's name. */
const ENGINES = [
  { title: "WebGPU", module: "ort.webgpu.min.mjs", wasm: "ort-wasm-simd-threaded.asyncify", provider: "webgpu" },
  { title: "WebAssembly", module: "ort.wasm.min.mjs", wasm: "ort-wasm-simd-threaded", provider: "wasm" },
];

/** @type {{site: any, engine: typeof ENGINES[0], opened: import("./explainer.mjs").Opened} | null} */
let ready = null;

const ASKED = {
  /** Opens the model on the best engine that works. */
  async open({ site, device }, report) {
    const engines = [];
    for (const engine of ENGINES) if (await usable(engine, site, device)) engines.push(engine);
    ready = await firstThatWorks(engines, (engine) => opened(engine, site, report));
    return { engine: ready.engine.title, description: ready.opened.description };
  },

  /** Explains an image; where WebGPU fails at it, WebAssembly takes over. */
  async explain({ image, target }, report) {
    const begun = performance.now();
    let answer = null;
    try {
      answer = await explain(ready.opened, image, target);
    } catch (error) {
      if (ready.engine.provider === "wasm") throw error;
    }
    if (ready.engine.provider !== "wasm" && !(answer && sound(answer))) {
      await ready.opened.session.release().catch(() => {});
      ready = await opened(ENGINES.at(-1), ready.site, report);
      answer = await explain(ready.opened, image, target);
    }
    if (!sound(answer)) throw new Error("the model answers with numbers that are not finite");
    return { ...answer, engine: ready.engine.title, seconds: (performance.now() - begun) / 1000 };
  },
};

self.onmessage = async ({ data: { id, ask, ...details } }) => {
  try {
    const done = await ASKED[ask](details, (progress) => self.postMessage({ id, progress }));
    self.postMessage({ id, done });
  } catch (error) {
    self.postMessage({ id, failed: String(error).replace(/^Error: /, "") });
  }
};

/**
 * @param {typeof ENGINES[0]} engine
 * @param {any} site
 * @param {string | null} device what the address of the page asks for
 */
async function usable(engine, site, device) {
  if (device && device !== engine.provider) return false;
  if (engine.provider === "wasm") {
    if (typeof WebAssembly === "undefined") throw new Error("this browser has no WebAssembly");
    return true;
  }
  if (!site.runtime.files[engine.module] || !navigator.gpu) return false;
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  // one that is imitated by the processor takes fifty times as long as WebAssembly
  return Boolean(adapter) && (device !== null || !(adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter));
}

/**
 * @template Thing, Made
 * @param {Thing[]} things
 * @param {(thing: Thing) => Promise<Made>} make
 */
async function firstThatWorks(things, make) {
  let failure = new Error("nothing that this browser offers can compute the model");
  for (const thing of things) {
    try {
      return await make(thing);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/**
 * @param {typeof ENGINES[0]} engine
 * @param {any} site
 * @param {(progress: object) => void} report
 */
async function opened(engine, site, report) {
  const wasm = `${engine.wasm}.wasm`;
  const total = site.runtime.files[wasm] + site.model.bytes;
  let loaded = 0;
  const count = (bytes) => report({ loaded: (loaded += bytes), total });
  const ort = await load(`runtime/${engine.module}`);
  ort.env.wasm.wasmPaths = { mjs: new URL(`runtime/${engine.wasm}.mjs`, HERE).href };
  ort.env.wasm.wasmBinary = await download([{ name: `runtime/${wasm}`, bytes: site.runtime.files[wasm] }], count);
  ort.env.wasm.numThreads = self.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
  ort.env.logLevel = "error";
  const model = await download(site.model.parts, count);
  report({ loaded: total, total });
  return {
    site,
    engine,
    opened: await open(ort, model, { executionProviders: [engine.provider], logSeverityLevel: 3 }),
  };
}

/** @param {string} name of a script of the site */
async function load(name) {
  const address = new URL(name, HERE);
  try {
    return await import(address.href);
  } catch (error) {
    const { ok, status } = await fetch(address, { method: "HEAD" }); // `import` says not why
    if (ok) throw error;
    throw new Error(`${name} is missing on the server (status ${status})`);
  }
}

/**
 * The bytes of one file that may lie in several parts.
 * @param {{name: string, bytes: number}[]} parts
 * @param {(bytes: number) => void} count
 */
async function download(parts, count) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.bytes, 0));
  let at = 0;
  for (const part of parts) {
    const response = await fetch(new URL(part.name, HERE));
    if (!response.ok) throw new Error(`${part.name} is missing on the server (status ${response.status})`);
    const end = at + part.bytes;
    for (const reader = response.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > end) throw new Error(`${part.name} on the server is larger than it was made`);
      whole.set(value, at);
      at += value.length;
      count(value.length);
    }
    if (at < end) throw new Error(`${part.name} was cut short: ${end - at} of ${part.bytes} bytes are missing`);
  }
  return whole;
}

/** @param {import("./explainer.mjs").Answer} answer */
function sound({ classes, maps }) {
  return (
    classes.every(({ score }) => Number.isFinite(score)) && maps.every(({ values }) => values.every(Number.isFinite))
  );
}
