/** The panels of the page: what each shows, at which size, and their legend. */

import { byId, element } from "./elements.mjs";
import { cutout, groundwork, overlay } from "./paint.mjs";
import { halfEven } from "./prepare.mjs";
import { viewOf } from "./view.mjs";

const SIDES = [600, 800]; // of a panel in pixels: the shorter one at least, the longer one at most
const GREY = 72; // a ground of medium darkness below the colours of the legend

/**
 * Width and height at which an image is drawn: its own within bounds.
 * @param {number} width
 * @param {number} height
 * @returns {[number, number]}
 */
function panelSize(width, height) {
  const [least, most] = SIDES;
  const factor = Math.min(Math.max(1, least / Math.min(width, height)), most / Math.max(width, height));
  return [width, height].map((side) => Math.max(1, halfEven(side * factor)));
}

/**
 * The image at the size of a panel.
 * @param {{width: number, height: number, data: Uint8ClampedArray}} image
 * @returns {HTMLCanvasElement}
 */
export function photograph(image) {
  const [width, height] = panelSize(image.width, image.height);
  const whole = element("canvas", { width: image.width, height: image.height });
  whole.getContext("2d").putImageData(new ImageData(image.data, image.width, image.height), 0, 0);
  const panel = element("canvas", { width, height });
  const context = panel.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, 0, 0, width, height);
  return panel;
}

/**
 * Everything that is drawn of one map; maps beside each other have the same colours, so that `both` signs may be drawn.
 * @param {HTMLCanvasElement} photo
 * @param {{width: number, height: number}} image
 * @param {import("./explainer.mjs").Relevance} map
 * @param {import("./prepare.mjs").Box | null} box
 * @param {import("./description.mjs").Description} description
 * @param {any} drawing
 * @param {boolean | null} both null: where the negative one matters
 */
export function workOf(photo, image, map, box, description, drawing, both) {
  const { width, height } = photo;
  const zoom = [width / image.width, height / image.height];
  const covered = box ? box.map((edge, at) => edge * zoom[at % 2]) : [0, 0, width, height];
  const { smoothed, normalised } = description.built;
  const place = { width, height, box: covered, grid: gridOf(description, map), smoothed, normalised };
  const pixels = photo.getContext("2d").getImageData(0, 0, width, height).data;
  return groundwork(pixels, viewOf(map, place, drawing, both), drawing);
}

/**
 * Rows and columns of the patches of the model.
 * @param {import("./description.mjs").Description} description
 * @param {import("./explainer.mjs").Relevance} map
 * @returns {[number, number]}
 */
function gridOf({ anatomy }, { rows, columns }) {
  const grid = anatomy.blocks?.[0]?.grid;
  return grid ?? [rows, columns];
}

/** What a panel shows, by the choice of the reader. */
const SHOWN = {
  overlay: (work, opacity) => overlay(work, opacity),
  cutout: (work) => cutout(work),
  photo: (work) => ({ width: work.view.width, height: work.view.height, data: work.photo }),
};

/**
 * @param {HTMLCanvasElement} canvas
 * @param {ReturnType<typeof groundwork>} work
 * @param {"overlay" | "cutout" | "photo"} view
 * @param {number} opacity
 */
export function paintOn(canvas, work, view, opacity) {
  const { width, height, data } = SHOWN[view](work, opacity);
  canvas.width = width;
  canvas.height = height;
  canvas.style.setProperty("--ratio", String(width / height));
  canvas.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
}

/**
 * The legend for the views that are shown.
 * @param {ReturnType<typeof groundwork>[]} works
 * @param {string[]} names of their classes
 * @param {number} opacity
 * @returns {{ends: [string, string], lined: boolean, notes: string[]}} `lined`: whether a map has an outlined area
 */
export function drawLegend(works, names, opacity) {
  const signed = works.some(({ view }) => view.signed);
  const style = works[0].style;
  stripe(byId("colours"), style, signed, opacity);
  sampleLine(byId("sample"), style);
  const ends = signed ? ["against", "for the class"] : ["none", "more relevant"];
  const lined = works.some(({ view }) => view.areaShare > 0);
  return { ends, lined, notes: notesOf(works, names) };
}

/** What must be known to read the maps: what holds for all, then what holds for one, with its class. */
function notesOf(works, names) {
  const all = works.map(({ view }) => view.notes);
  const common = all[0].filter((note) => all.every((notes) => notes.includes(note)));
  const single = all.flatMap((notes, at) =>
    notes.filter((note) => !common.includes(note)).map((note) => `${names[at]}: ${note}`),
  );
  return [...(works.length > 1 ? ["each map has its own scale"] : []), ...common, ...single];
}

/** The colours over a ground of medium darkness. */
function stripe(canvas, style, signed, opacity) {
  const { width, height } = canvas;
  const strength = Float32Array.from({ length: width * height }, (_, at) => {
    const share = (at % width) / (width - 1);
    return signed ? 2 * share - 1 : share;
  });
  paint(canvas, style, { strength, area: new Uint8Array(strength.length), signed }, opacity);
}

/** A piece of the line. */
function sampleLine(canvas, style) {
  const { width, height } = canvas;
  const area = Uint8Array.from({ length: width * height }, (_, at) => (at >= width * (height / 2) ? 1 : 0));
  const wide = { ...style, line_widths: [4, 4] };
  paint(canvas, wide, { strength: new Float32Array(area.length), area, signed: false }, 1);
}

function paint(canvas, style, view, opacity) {
  const { width, height } = canvas;
  const seen = { top: 0, left: 0, width, height };
  const plain = { ...style, darkest: GREY / 255, lightest: GREY / 255 };
  const photo = new Uint8ClampedArray(width * height * 4).fill(255);
  const { data } = overlay(groundwork(photo, { width, height, seen, ...view }, plain), opacity);
  canvas.getContext("2d").putImageData(new ImageData(data, width, height), 0, 0);
}
