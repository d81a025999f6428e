/**
 * A map as the eye gets it, as `gradskip_onnx.drawing.view`: at the size of a panel, smoothed, scaled from none to the
 * strongest, with the smallest area that holds half of the positive relevance.
 *
 * @typedef {object} Drawing the constants of the pictures of Python, from site.json
 * @property {number} matters share of all relevance from which negative relevance is drawn
 * @property {number} none_below share of the top below which nothing is drawn
 * @property {number} spikes share of the pixels that may exceed the range of the colours
 * @property {number} spiky strongest / range from which the range is clipped
 * @property {number} nearly_even weakest / strongest above which a map is called nearly even
 * @property {number} finest patches a side; smaller ones are smoothed as if there were so many
 * @property {number} smoothing in patches
 * @property {number} outline share of the positive relevance inside the line
 * @typedef {{top: number, left: number, height: number, width: number}} Part of a panel
 * @typedef {object} MapView
 * @property {number} width of the panel
 * @property {number} height
 * @property {Part} seen what the model saw
 * @property {Float32Array} strength by pixel of the part seen, -1 to 1
 * @property {Uint8Array} area by pixel of the part seen: 1 inside the line
 * @property {number} areaShare of what the model saw
 * @property {boolean} signed whether relevance against the class is drawn
 * @property {boolean} whole whether the model saw all of the image
 * @property {string[]} notes what must be known to read the picture
 */

import { halfEven } from "./prepare.mjs";

/**
 * @param {import("./explainer.mjs").Relevance} map
 * @param {object} place
 * @param {number} place.width of the panel
 * @param {number} place.height
 * @param {import("./prepare.mjs").Box} place.box the part of the panel that the map covers
 * @param {[number, number]} place.grid rows and columns of patches of the model
 * @param {boolean} place.smoothed whether the file has smoothed the map already
 * @param {boolean} place.normalised whether the file has scaled the map from 0 to 1, so that its zero is not known
 * @param {Drawing} drawing
 * @param {boolean | null} both whether both signs are drawn; null: where the negative one matters
 * @returns {MapView}
 */
export function viewOf(map, { width, height, box, grid, smoothed, normalised }, drawing, both = null) {
  const seen = partOf(width, height, box);
  const placed = stretched(map, seen, box);
  const patch = [(box[3] - box[1]) / grid[0], (box[2] - box[0]) / grid[1]];
  const unit = [Math.max(patch[0], seen.height / drawing.finest), Math.max(patch[1], seen.width / drawing.finest)];
  const smoothing = smoothed ? 0 : drawing.smoothing;
  const values = blurred(
    placed,
    seen.width,
    unit.map((size) => smoothing * size),
  );
  const against = negativeShare(placed);
  const signed = both ?? against > drawing.matters;
  const none = normalised || (signed && against >= 1 - drawing.matters);
  const area = none ? new Uint8Array(values.length) : smallestArea(values, drawing.outline);
  const { low, top, clipped } = rangeOf(values, signed, drawing);
  const empty = !(top > low);
  const least = signed ? -1 : 0;
  const strength = values.map((value) => (empty ? 0 : Math.min(1, Math.max(least, (value - low) / (top - low)))));
  const outlined = area.reduce((sum, inside) => sum + inside, 0);
  const fine = unit[0] !== patch[0] || unit[1] !== patch[1];
  const whole = seen.width === width && seen.height === height;
  const notes = [];
  if (empty) notes.push("nothing to draw: relevance is the same everywhere");
  if (normalised) notes.push("no line: the file gives maps from 0 to 1, whose zero is not known");
  else if (!empty && signed && outlined === 0) notes.push("no line: next to nothing speaks for the class");
  if (!empty && low > drawing.nearly_even * top) notes.push("nearly even: colours span small differences");
  if (!empty && clipped) notes.push(`strongest ${(100 * drawing.spikes).toFixed(1)}% in one colour`);
  if (smoothing) notes.push(`smoothed for the eye by ${smoothingWords(fine, drawing)}`);
  if (!whole) notes.push("dark, outside the frame: cropped away, not seen by the model");
  return { width, height, seen, strength, area, areaShare: outlined / area.length, signed, whole, notes };
}

/**
 * @param {boolean} fine
 * @param {Drawing} drawing
 */
function smoothingWords(fine, { smoothing, finest }) {
  return fine ? `${((100 * smoothing) / finest).toFixed(1)}% of the side` : `${smoothing} of a patch`;
}

/**
 * The pixels whose centres lie in the box, at least one a side.
 * @param {number} width
 * @param {number} height
 * @param {import("./prepare.mjs").Box} box
 * @returns {Part}
 */
export function partOf(width, height, box) {
  const [x0, y0, x1, y1] = box.map(halfEven);
  const top = Math.min(Math.max(y0, 0), height - 1);
  const left = Math.min(Math.max(x0, 0), width - 1);
  const bottom = Math.min(Math.max(y1, top + 1), height);
  const right = Math.min(Math.max(x1, left + 1), width);
  return { top, left, height: bottom - top, width: right - left };
}

/**
 * The map stretched over the box, the pixels of a part of it.
 * @param {import("./explainer.mjs").Relevance} map
 * @param {Part} part
 * @param {import("./prepare.mjs").Box} box
 */
function stretched({ values, rows, columns }, part, box) {
  const down = triangle(rows, part.top, part.height, box[1], box[3]);
  const over = triangle(columns, part.left, part.width, box[0], box[2]);
  const tall = new Float64Array(part.height * columns);
  down.forEach((taps, row) => {
    for (const [from, weight] of taps) {
      for (let at = 0; at < columns; at++) tall[row * columns + at] += weight * values[from * columns + at];
    }
  });
  const placed = new Float64Array(part.height * part.width);
  for (let row = 0; row < part.height; row++) {
    over.forEach((taps, column) => {
      let sum = 0;
      for (const [from, weight] of taps) sum += weight * tall[row * columns + from];
      placed[row * part.width + column] = sum;
    });
  }
  return placed;
}

/**
 * Linear weights of the `old` cells between start and stop for `count` pixels from `first`; shrinking averages.
 * @param {number} old
 * @param {number} first
 * @param {number} count
 * @param {number} start
 * @param {number} stop
 * @returns {[number, number][][]} by pixel, places and weights
 */
function triangle(old, first, count, start, stop) {
  const scale = old / (stop - start);
  const reach = Math.max(1, scale);
  return Array.from({ length: count }, (_, pixel) => {
    const at = (first + pixel + 0.5 - start) * scale - 0.5;
    /** @type {[number, number][]} */
    const taps = [];
    let sum = 0;
    for (let cell = Math.max(0, Math.ceil(at - reach)); cell <= Math.min(old - 1, Math.floor(at + reach)); cell++) {
      const weight = 1 - Math.abs(at - cell) / reach;
      if (weight > 0) taps.push([cell, weight]);
      sum += weight;
    }
    return taps.map(([cell, weight]) => [cell, weight / sum]);
  });
}

/**
 * A Gaussian blur, the values mirrored at the edges.
 * @param {Float64Array} values
 * @param {number} width
 * @param {number[]} sigma down and across, in pixels
 * @returns {Float64Array}
 */
export function blurred(values, width, [down, across]) {
  const height = values.length / width;
  let found = values;
  if (down > 0) found = along(found, height, width, width, 1, down);
  if (across > 0) found = along(found, width, height, 1, width, across);
  return found;
}

/**
 * Blurs lines of `length` values that lie `step` apart; there are `lines`, whose beginnings lie `apart`.
 * @param {Float64Array} values
 * @param {number} length
 * @param {number} lines
 * @param {number} step
 * @param {number} apart
 * @param {number} sigma
 */
function along(values, length, lines, step, apart, sigma) {
  const reach = Math.ceil(4 * sigma);
  const kernel = Float64Array.from({ length: 2 * reach + 1 }, (_, at) => Math.exp(-0.5 * ((at - reach) / sigma) ** 2));
  const sum = kernel.reduce((total, weight) => total + weight, 0);
  const made = new Float64Array(values.length);
  const padded = new Float64Array(length + 2 * reach);
  for (let line = 0; line < lines; line++) {
    for (let at = 0; at < padded.length; at++) padded[at] = values[line * apart + mirrored(at - reach, length) * step];
    for (let at = 0; at < length; at++) {
      let total = 0;
      for (let tap = 0; tap < kernel.length; tap++) total += kernel[tap] * padded[at + tap];
      made[line * apart + at * step] = total / sum;
    }
  }
  return made;
}

/**
 * A place outside of 0 to length - 1, mirrored at the edges as often as it takes.
 * @param {number} at
 * @param {number} length
 */
function mirrored(at, length) {
  const turn = ((at % (2 * length)) + 2 * length) % (2 * length);
  return turn < length ? turn : 2 * length - 1 - turn;
}

/** @param {Float64Array} values */
function negativeShare(values) {
  let negative = 0;
  let all = 0;
  for (const value of values) {
    negative -= Math.min(value, 0);
    all += Math.abs(value);
  }
  return all > 0 ? negative / all : 0;
}

/**
 * 1 for the strongest pixels that together hold `share` of the positive values; equal ones stay together.
 * @param {Float64Array} values
 * @param {number} share
 */
export function smallestArea(values, share) {
  const positive = values.map((value) => Math.max(value, 0));
  const sorted = positive.slice().sort();
  const wanted = share * sorted.reduceRight((sum, value) => sum + value, 0);
  if (!(wanted > 0)) return new Uint8Array(values.length);
  let at = sorted.length - 1;
  for (let held = sorted[at]; held < wanted && at > 0; held += sorted[at]) at--;
  return Uint8Array.from(positive, (value) => (value >= sorted[at] ? 1 : 0));
}

/**
 * The values drawn as none and as the strongest, and whether some lie beyond.
 * @param {Float64Array} values
 * @param {boolean} signed
 * @param {Drawing} drawing
 */
function rangeOf(values, signed, { spikes, spiky }) {
  const low = Math.max(
    0,
    values.reduce((least, value) => Math.min(least, value), Infinity),
  );
  const sizes = values.map((value) => (signed ? Math.abs(value) : Math.max(value, low))).sort();
  const reach = sizes[sizes.length - 1];
  const at = (sizes.length - 1) * (1 - spikes);
  const below = Math.floor(at);
  const usual = sizes[below] + (at - below) * ((sizes[below + 1] ?? sizes[below]) - sizes[below]);
  const clipped = reach - low > spiky * (usual - low) && usual - low > 0;
  return { low, top: clipped ? usual : reach, clipped };
}
