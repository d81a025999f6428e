/**
 * Resizes eight-bit images exactly as Pillow 13 does: a filter that widens when it shrinks, one pass along each axis,
 * weights of 22 binary places, and bytes between the passes.
 *
 * @typedef {{width: number, height: number, data: Uint8Array | Uint8ClampedArray, channels: number}} Pixels
 *   rows of pixels from the top, `channels` bytes a pixel of which the first three are red, green and blue
 * @typedef {{reach: number, weight: (x: number) => number}} Filter half-width, and weight at a distance
 */

const PLACES = 22; // of the weights: 32 bits, less 8 of the pixels, less 2 for filters that overshoot

/** @param {number} x */
const sinc = (x) => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));

/** @param {number} x Keys' cubic, with a = -1/2 */
function cubic(x) {
  const a = -0.5;
  const at = Math.abs(x);
  if (at < 1) return ((a + 2) * at - (a + 3)) * at * at + 1;
  return at < 2 ? (((at - 5) * at + 8) * at - 4) * a : 0;
}

/** @param {number} x */
function hamming(x) {
  const at = Math.abs(x);
  if (at === 0) return 1;
  return at < 1 ? (Math.sin(at * Math.PI) / (at * Math.PI)) * (0.54 + 0.46 * Math.cos(at * Math.PI)) : 0;
}

/** @type {Readonly<Record<string, Filter>>} */
const FILTERS = Object.freeze({
  box: { reach: 0.5, weight: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { reach: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { reach: 1, weight: hamming },
  bicubic: { reach: 2, weight: cubic },
  lanczos: { reach: 3, weight: (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0) },
});

/**
 * The image as RGB at another size.
 * @param {Pixels} image
 * @param {number} width
 * @param {number} height
 * @param {string} interpolation nearest, box, bilinear, hamming, bicubic or lanczos
 * @returns {Pixels}
 */
export function resize(image, width, height, interpolation) {
  if (interpolation === "nearest") return nearest(image, width, height);
  const filter = FILTERS[interpolation];
  if (!filter) throw new RangeError(`interpolation ${interpolation} is not known`);
  const rows = (from) => (from.height === height ? from : down(from, taps(from.height, height, filter)));
  const columns = (from) => (from.width === width ? from : across(from, taps(from.width, width, filter)));
  // the pass that leaves fewer pixels comes first; earlier versions of Pillow always begin with the columns
  const shorter = image.height - height;
  const made = shorter > Math.max(0, 2 * (image.width - width)) ? columns(rows(image)) : rows(columns(image));
  return made.channels === 3 ? made : nearest(made, width, height);
}

/**
 * For each new sample the first old one it reads, how many, and their weights, `most` places a sample.
 * @param {number} old
 * @param {number} fresh
 * @param {Filter} filter
 */
function taps(old, fresh, filter) {
  const scale = old / fresh;
  const wider = Math.max(scale, 1);
  const reach = filter.reach * wider;
  const most = Math.ceil(reach) * 2 + 1;
  const first = new Int32Array(fresh);
  const count = new Int32Array(fresh);
  const weights = new Int32Array(fresh * most);
  for (let at = 0; at < fresh; at++) {
    const centre = (at + 0.5) * scale;
    const from = Math.max(0, Math.trunc(centre - reach + 0.5));
    const length = Math.min(old, Math.trunc(centre + reach + 0.5)) - from;
    const exact = Array.from({ length }, (_, k) => filter.weight((k + from - centre + 0.5) * (1 / wider)));
    const sum = exact.reduce((total, weight) => total + weight, 0);
    exact.forEach((weight, k) => {
      const share = (sum === 0 ? weight : weight / sum) * 2 ** PLACES;
      weights[at * most + k] = Math.trunc(share < 0 ? share - 0.5 : share + 0.5);
    });
    first[at] = from;
    count[at] = length;
  }
  return { fresh, most, first, count, weights };
}

/** @typedef {ReturnType<typeof taps>} Taps */

/**
 * Along rows; channels beyond three are left out.
 * @param {Pixels} image
 * @param {Taps} by
 * @returns {Pixels}
 */
function across(image, by) {
  const { data, channels, width, height } = image;
  const made = new Uint8ClampedArray(by.fresh * height * 3);
  for (let row = 0, to = 0; row < height; row++) {
    for (let column = 0; column < by.fresh; column++) {
      let red = 1 << (PLACES - 1);
      let green = red;
      let blue = red;
      let from = (row * width + by.first[column]) * channels;
      const start = column * by.most;
      for (let k = start; k < start + by.count[column]; k++, from += channels) {
        const weight = by.weights[k];
        red += data[from] * weight;
        green += data[from + 1] * weight;
        blue += data[from + 2] * weight;
      }
      made[to++] = red >> PLACES;
      made[to++] = green >> PLACES;
      made[to++] = blue >> PLACES;
    }
  }
  return { width: by.fresh, height, data: made, channels: 3 };
}

/**
 * Along columns, a row at a time.
 * @param {Pixels} image
 * @param {Taps} by
 * @returns {Pixels}
 */
function down(image, by) {
  const { data, channels, width } = image;
  const made = new Uint8ClampedArray(width * by.fresh * 3);
  const sums = new Float64Array(width * 3);
  for (let row = 0; row < by.fresh; row++) {
    sums.fill(1 << (PLACES - 1));
    for (let k = 0; k < by.count[row]; k++) {
      const weight = by.weights[row * by.most + k];
      let from = (by.first[row] + k) * width * channels;
      for (let to = 0; to < sums.length; to += 3, from += channels) {
        sums[to] += data[from] * weight;
        sums[to + 1] += data[from + 1] * weight;
        sums[to + 2] += data[from + 2] * weight;
      }
    }
    const start = row * width * 3;
    for (let at = 0; at < sums.length; at++) made[start + at] = sums[at] >> PLACES;
  }
  return { width, height: by.fresh, data: made, channels: 3 };
}

/**
 * The pixel below each new centre; positions are summed up, as Pillow does.
 * @param {Pixels} image
 * @param {number} width
 * @param {number} height
 * @returns {Pixels}
 */
function nearest(image, width, height) {
  const rows = nearestPlaces(image.height, height);
  const columns = nearestPlaces(image.width, width);
  const made = new Uint8ClampedArray(width * height * 3);
  let to = 0;
  for (const row of rows) {
    for (const column of columns) {
      const from = (row * image.width + column) * image.channels;
      for (let channel = 0; channel < 3; channel++) made[to++] = image.data[from + channel];
    }
  }
  return { width, height, data: made, channels: 3 };
}

/**
 * @param {number} old
 * @param {number} fresh
 */
function nearestPlaces(old, fresh) {
  const step = old / fresh;
  const places = new Int32Array(fresh);
  for (let at = 0, here = step * 0.5; at < fresh; at++, here += step) places[at] = Math.min(old - 1, Math.trunc(here));
  return places;
}
