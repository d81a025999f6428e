/** The page: loads the model, takes images, shows classes and maps. */

import { listClasses, percent } from "./classes.mjs";
import { offerExamples, offerWays } from "./choose.mjs";
import { ask } from "./client.mjs";
import { decode } from "./decode.mjs";
import { byId, element } from "./elements.mjs";
import { drawLegend, paintOn, photograph, workOf } from "./figures.mjs";
import { compose } from "./picture.mjs";

const PREDICTED = -1;
const SHARES = { classification: "probability", segmentation: "share of pixels" };
const MEGA = 1e6;

const page = {
  site: null, // the table of the site
  /** @type {Promise<any> | null} */
  loading: null, // of the model
  description: null,
  engine: "",
  image: null, // what is explained: {name, pixels, photo}
  classes: [],
  maps: new Map(), // by class
  works: [], // what is drawn of the maps that are shown
  shown: [], // classes: one, or two that are compared
  view: "overlay",
  opacity: 0.9,
  turn: 0, // of the images: an answer for an earlier one is dropped
};

const started = start();
started.catch(fail);

async function start() {
  byId("unstarted").remove();
  byId("model").textContent = "The model is being loaded.";
  offerWays(take, fail);
  byId("opacity").addEventListener("input", () => {
    page.opacity = byId("opacity").value / 100;
    repaint();
  });
  byId("views").addEventListener("change", (event) => {
    page.view = event.target.value;
    byId("opacity").disabled = page.view !== "overlay";
    repaint();
  });
  byId("save").addEventListener("click", () => save().catch(fail));
  const response = await fetch("site.json");
  if (!response.ok) throw new Error(`site.json is missing on the server (status ${response.status}).`);
  page.site = await response.json().catch(() => {
    throw new Error("site.json on the server is damaged: upload the folder of the site again.");
  });
  byId("title").textContent = document.title = page.site.title;
  page.opacity = page.site.drawing.opacity;
  byId("opacity").value = String(100 * page.opacity);
  offerExamples(page.site.examples, take, fail);
  if (!navigator.connection?.saveData) setTimeout(() => load().catch(fail)); // else the first image starts it
}

/** Opens the model, once. */
function load() {
  page.loading ??= open().catch((error) => {
    page.loading = null; // so that it can be tried again
    throw error;
  });
  return page.loading;
}

async function open() {
  byId("loading").hidden = false;
  try {
    await started;
    const device = new URLSearchParams(location.search).get("device");
    const { engine, description } = await ask("open", { site: page.site, device }, showProgress);
    Object.assign(page, { engine, description });
    const { built } = description;
    byId("model").textContent = `${page.site.model.name} · ${built.classes} classes · ${built.method}`;
    announce("The model is ready.");
  } finally {
    byId("loading").hidden = true;
  }
}

/** @param {{loaded: number, total: number}} progress in bytes */
function showProgress({ loaded, total }) {
  byId("loading").hidden = loaded >= total && Boolean(page.description);
  const bar = byId("bar");
  bar.max = total;
  if (loaded < total) bar.value = loaded;
  else bar.removeAttribute("value");
  const [have, all] = [loaded, total].map((bytes) => (bytes / MEGA).toFixed(1));
  byId("loading-words").textContent =
    loaded < total ? `Loading the model: ${have} of ${all} MB` : "Opening the model …";
}

/**
 * Explains an image.
 * @param {Blob} file
 * @param {string} name
 */
async function take(file, name) {
  const turn = ++page.turn;
  clearError();
  busy(true);
  try {
    const pixels = await decode(file);
    await load();
    if (turn !== page.turn) return;
    announce(`Looking at ${name} …`);
    const answer = await ask("explain", { image: pixels, target: PREDICTED }, showProgress);
    if (turn !== page.turn) return;
    const photo = photograph(pixels);
    Object.assign(page, { image: { name, pixels, photo }, classes: answer.classes, maps: new Map() });
    byId("query").value = "";
    keep(answer);
    show([answer.maps[0].target]);
  } catch (error) {
    if (turn === page.turn) fail(error);
  } finally {
    if (turn === page.turn) busy(false);
  }
}

/** Keeps the maps of an answer. */
function keep({ maps, box, engine, seconds }) {
  for (const map of maps) page.maps.set(map.target, { map, box });
  Object.assign(page, { engine, seconds });
  byId("loading").hidden = true;
}

/**
 * What is drawn of the maps of some classes, in the same colours.
 * @param {number[]} shown
 */
function worksOf(shown) {
  const { pixels, photo } = page.image;
  const draw = (target, both) => {
    const { map, box } = page.maps.get(target);
    return workOf(photo, pixels, map, box, page.description, page.site.drawing, both);
  };
  const works = shown.map((target) => draw(target, null));
  const both = works.some(({ view }) => view.signed);
  return works.map((work, at) => (work.view.signed === both ? work : draw(shown[at], both)));
}

/**
 * Shows one class, or two beside each other; what is not known yet is computed first.
 * @param {number[]} shown
 */
async function choose(shown) {
  const turn = page.turn;
  clearError();
  busy(true);
  try {
    for (const target of shown) {
      if (page.maps.has(target)) continue;
      announce(`Explaining ${nameOf(target)} …`);
      const answer = await ask("explain", { image: page.image.pixels, target }, showProgress);
      if (turn !== page.turn) return;
      keep(answer);
    }
    show(shown);
  } catch (error) {
    if (turn === page.turn) fail(error);
  } finally {
    if (turn === page.turn) busy(false);
  }
}

/** @param {number[]} shown */
function show(shown) {
  Object.assign(page, { shown, works: worksOf(shown) });
  const { built } = page.description;
  const unit = SHARES[built.task];
  document.body.classList.add("answered");
  byId("result").hidden = false;
  byId("figures").replaceChildren(...shown.map((target) => figure(standingOf(target), unit)));
  listClasses({
    classes: page.classes,
    shown,
    open: built.inputs.target ? null : new Set(page.maps.keys()),
    unit,
    explain: (target) => choose([target]),
    compare: (target) => choose(target === page.shown[1] ? [page.shown[0]] : [page.shown[0], target]),
    announce,
  });
  byId("classes-title").textContent = unit === "probability" ? "What the model sees" : "Classes in the image";
  const runtime = `ONNX Runtime Web ${page.site.runtime.version}, ${page.engine}`;
  byId("facts").textContent =
    `Method ${built.method} · ${page.seconds < 0.1 ? "under 0.1" : page.seconds.toFixed(1)} s on this device · ${runtime}`;
  repaint();
  announce(`Explained: ${shown.map(nameOf).join(" beside ")}.`);
}

/** A panel with its class above it. */
function figure({ index, name, share, score }, unit) {
  const words = `${unit} ${percent(share)} · logit\u00a0${score.toFixed(2)}`;
  const title = element("figcaption", {}, element("strong", {}, name), element("span", { className: "faint" }, words));
  const canvas = element("canvas", { role: "img", "aria-label": `Map of the relevance for ${name}` });
  canvas.dataset.target = String(index);
  return element("figure", {}, title, canvas);
}

/** Paints what is shown anew. */
function repaint() {
  const { works } = page;
  if (works.length === 0) return;
  const canvases = byId("figures").querySelectorAll("canvas");
  works.forEach((work, at) => paintOn(canvases[at], work, page.view, page.opacity));
  const { ends, lined, notes } = drawLegend(works, page.shown.map(nameOf), page.opacity);
  byId("line").hidden = !lined;
  byId("scale").hidden = page.view !== "overlay";
  [byId("low").textContent, byId("high").textContent] = ends;
  byId("notes").textContent = notes.join(" · ");
  byId("legend").hidden = page.view === "photo";
}

/** Saves title, image, maps and legend as one PNG. */
async function save() {
  const { works } = page;
  const panels = [{ canvas: page.image.photo, title: "", facts: page.image.name }];
  works.forEach((work, at) => {
    const canvas = element("canvas");
    paintOn(canvas, work, "overlay", page.opacity);
    panels.push({ canvas, ...captionOf(at) });
  });
  if (works.length === 1 && works[0].view.areaShare > 0 && works[0].view.areaShare < works[0].style.cutout_below) {
    const canvas = element("canvas");
    paintOn(canvas, works[0], "cutout", 1);
    panels.push({ canvas, title: "", facts: "the outlined area alone" });
  }
  const first = standingOf(page.shown[0]);
  const { built } = page.description;
  const common = [`method ${built.method}`, page.site.model.name];
  const { ends, lined, notes } = drawLegend(works, page.shown.map(nameOf), page.opacity);
  const blob = await compose({
    title: page.shown.map(nameOf).join(" and "),
    facts: [...(works.length === 1 ? [`${SHARES[built.task]} ${percent(first.share)}`] : []), ...common].join(" · "),
    panels,
    legend: {
      ends,
      colours: byId("colours"),
      sample: byId("sample"),
      line: lined ? "smallest area that holds half of the positive relevance" : "",
    },
    notes,
  });
  const address = URL.createObjectURL(blob);
  const stem = page.image.name.replace(/\.[^.]*$/, "");
  element("a", { href: address, download: `${stem}-${page.shown.map(nameOf).join("-")}.png` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
  announce("The picture was saved.");
}

/** The words below a map in a saved picture. */
function captionOf(at) {
  if (page.shown.length === 1) return { title: "", facts: "relevance over the image" };
  const { name, share } = standingOf(page.shown[at]);
  return { title: name, facts: `${SHARES[page.description.built.task]} ${percent(share)}` };
}

function standingOf(target) {
  return page.classes.find(({ index }) => index === target);
}

function nameOf(target) {
  return standingOf(target).name;
}

/** @param {boolean} working */
function busy(working) {
  for (const figure of byId("figures").children) figure.setAttribute("aria-busy", String(working));
  byId("save").disabled = working;
}

/** @param {string} words for screen readers */
function announce(words) {
  byId("status").textContent = words;
}

function clearError() {
  byId("error").hidden = true;
}

/** What a failure means, by what engines say of it. */
const MEANINGS = [
  [
    /memory|allocat|out of bounds|RangeError: Array buffer/i,
    () =>
      `This device has too little free memory for the model (${megabytes()} MB). Close other tabs, or use a computer.`,
  ],
  [
    /no WebAssembly/,
    () => "This browser cannot run the model: it has no WebAssembly. A browser of the last years has it.",
  ],
  [
    /Failed to fetch|NetworkError|Load failed/,
    () => "The connection was lost while the model was loading. Choose the image again to go on.",
  ],
];

function megabytes() {
  return page.site ? (page.site.model.bytes / MEGA).toFixed(0) : "?";
}

/** @param {Error} error */
function fail(error) {
  const text = String(error?.message ?? error);
  const meaning = MEANINGS.find(([pattern]) => pattern.test(text));
  byId("error").textContent = meaning ? meaning[1]() : text;
  byId("error").hidden = false;
}
