/**
 * Turns pixels into the input of a model, with the same numbers as `gradskip_onnx.images.preprocess` in Python.
 *
 * @typedef {import("./resample.mjs").Pixels} Pixels
 * @typedef {object} Preprocess settings as the file of the model stores them
 * @property {[number, number]} size height and width of the input
 * @property {number} crop share of the resized image that the centre crop keeps
 * @property {number[]} mean of the channels, on values 0 to 1
 * @property {number[]} std as the mean
 * @property {string} interpolation
 * @property {"shorter" | "stretch" | "pad"} resize
 * @property {"rgb" | "bgr"} channels
 * @typedef {[number, number, number, number]} Box left, top, right and bottom, in pixels of the image
 */

import { resize } from "./resample.mjs";

const MOST_PIXELS = 100_000_000; // of the resized image

/**
 * The input (3, height, width), and the part of the image it covers. Padding is 0, the mean colour, and lies outside
 * of the image.
 * @param {Pixels} image upright, without transparency
 * @param {Preprocess} settings
 * @returns {{values: Float32Array, box: Box}}
 */
export function prepare(image, settings) {
  const [height, width] = settings.size;
  const [rows, columns] = resizedSize(image.height, image.width, settings);
  if (rows * columns > MOST_PIXELS) {
    throw new RangeError(`an image of ${image.width}×${image.height} pixels is too elongated`);
  }
  const resized = resize(image, columns, rows, settings.interpolation);
  const top = halfEven((rows - height) / 2);
  const left = halfEven((columns - width) / 2);
  const values = new Float32Array(3 * height * width);
  const tables = settings.mean.map((mean, channel) => normalised(mean, settings.std[channel]));
  const order = settings.channels === "bgr" ? [2, 1, 0] : [0, 1, 2];
  for (let channel = 0; channel < 3; channel++) {
    const table = tables[channel];
    for (let row = Math.max(0, -top); row < Math.min(height, rows - top); row++) {
      for (let column = Math.max(0, -left); column < Math.min(width, columns - left); column++) {
        const from = ((row + top) * columns + column + left) * 3 + order[channel];
        values[(channel * height + row) * width + column] = table[resized.data[from]];
      }
    }
  }
  const x = image.width / columns;
  const y = image.height / rows;
  return { values, box: [left * x, top * y, (left + width) * x, (top + height) * y] };
}

/**
 * Height and width after resizing, before the crop.
 * @param {number} height
 * @param {number} width
 * @param {Preprocess} settings
 * @returns {[number, number]}
 */
export function resizedSize(height, width, settings) {
  const [rows, columns] = settings.size.map((side) => Math.trunc(side / settings.crop + 1e-6));
  if (settings.resize === "stretch") return [rows, columns];
  if (settings.resize === "pad") {
    const factor = Math.min(rows / height, columns / width);
    return [Math.max(1, halfEven(height * factor)), Math.max(1, halfEven(width * factor))];
  }
  if (rows * width >= columns * height) return [rows, Math.max(columns, Math.trunc((rows * width) / height))];
  return [Math.max(rows, Math.trunc((columns * height) / width)), columns];
}

/**
 * What each byte becomes, in the precision of the input.
 * @param {number} mean
 * @param {number} std
 */
function normalised(mean, std) {
  const single = Math.fround;
  return Float32Array.from({ length: 256 }, (_, byte) =>
    single(single(single(byte / 255) - single(mean)) / single(std)),
  );
}

/**
 * The nearest whole number; of two, the even one, as Python rounds.
 * @param {number} value
 */
export function halfEven(value) {
  const low = Math.floor(value);
  if (value - low !== 0.5) return Math.round(value);
  return low % 2 === 0 ? low : low + 1;
}
