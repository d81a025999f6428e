/**
 * Runs a file that explains itself, by any ONNX Runtime for JavaScript: of the browser or of Node.
 *
 * @typedef {import("./resample.mjs").Pixels} Pixels
 * @typedef {import("./prepare.mjs").Box} Box
 * @typedef {import("./description.mjs").Description} Description
 * @typedef {{index: number, name: string, share: number, score: number}} Standing
 *   share: the probability, or for segmentation the share of the pixels; score: the logit, or its mean
 * @typedef {{target: number, values: Float32Array, rows: number, columns: number}} Relevance
 * @typedef {{classes: Standing[], maps: Relevance[], box: Box | null}} Answer
 *   classes from the likeliest; box: the part of the image that the maps cover, null for all of it
 * @typedef {{ort: any, session: any, description: Description}} Opened
 */

import { readDescription, requireInputs } from "./description.mjs";
import { fromHalf, toHalf } from "./half.mjs";
import { prepare } from "./prepare.mjs";

export const PREDICTED = -1; // as a target: the likeliest class; -2 is the second, and so on
const RANKED = 5; // ranks that a negative target can name

/**
 * @param {any} ort the module onnxruntime-web or onnxruntime-node
 * @param {Uint8Array} bytes of the file; one of them is changed
 * @param {object} [options] of ONNX Runtime's session
 * @returns {Promise<Opened>}
 */
export async function open(ort, bytes, options = {}) {
  const description = readDescription(bytes);
  requireInputs(bytes, [description.built.inputs.target]);
  return { ort, session: await ort.InferenceSession.create(bytes, options), description };
}

/**
 * The classes of an image, and what the model looked at for one of them.
 * @param {Opened} opened
 * @param {Pixels} image upright, without transparency
 * @param {number} [target] the index of a class, or PREDICTED
 * @returns {Promise<Answer>}
 */
export async function explain(opened, image, target = PREDICTED) {
  const { ort, session, description } = opened;
  const { inputs, outputs, task, top, classes: count } = description.built;
  if (!Number.isInteger(target) || target < -RANKED || target >= count) {
    throw new Error(`the model has no class ${target}; choose 0 to ${count - 1}, or ${PREDICTED} for the likeliest`);
  }
  const { tensor, box } = imageTensor(opened, image);
  const feeds = { [inputs.image]: tensor };
  if (inputs.target) {
    // a file of several classes in one run explains this one and the likeliest others
    const others = Array.from({ length: Math.max(top - 1, 0) }, (_, rank) => PREDICTED - rank - (target === PREDICTED));
    const targets = BigInt64Array.from([target, ...others], BigInt);
    feeds[inputs.target] = new ort.Tensor("int64", targets, top ? [1, top] : [1]);
  }
  const found = await session.run(feeds, Object.values(outputs));
  const logits = found[outputs.logits];
  const classes = STANDINGS[task](floatsOf(logits), logits.dims, description.labels);
  return { classes, maps: mapsOf(found[outputs.relevance], found[outputs.explained]), box };
}

/**
 * What the model is given, and the part of the image it covers.
 * @param {Opened} opened
 * @param {Pixels} image
 * @returns {{tensor: any, box: Box | null}}
 */
function imageTensor({ ort, session, description }, image) {
  const { built, preprocess, anatomy } = description;
  const name = built.inputs.image;
  if (built.preprocessing === "inside") {
    return { tensor: new ort.Tensor("uint8", packed(image), [image.height, image.width, 3]), box: null };
  }
  const input = session.inputMetadata.find((one) => one.name === name);
  const batch = input?.shape[0];
  if (typeof batch === "number" && batch > 1) throw new Error(`the model takes ${batch} images at once, not one`);
  const { values, box } = prepare(image, preprocess);
  const [height, width] = preprocess.size;
  const last = anatomy.input_layout === "bhwc";
  const ordered = last ? channelsLast(values, height * width) : values;
  const dims = last ? [1, height, width, 3] : [1, 3, height, width];
  const half = input?.type === "float16";
  return { tensor: new ort.Tensor(half ? "float16" : "float32", half ? toHalf(ordered) : ordered, dims), box };
}

/**
 * The pixels without a fourth channel.
 * @param {Pixels} image
 */
function packed({ data, channels, width, height }) {
  const made = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < made.length; from += channels) {
    for (let channel = 0; channel < 3; channel++) made[to++] = data[from + channel];
  }
  return made;
}

/**
 * @param {Float32Array} values (3, area)
 * @param {number} area
 */
function channelsLast(values, area) {
  return values.map((_, at) => values[(at % 3) * area + Math.trunc(at / 3)]);
}

/**
 * @param {any} tensor
 * @returns {Float32Array}
 */
function floatsOf(tensor) {
  return tensor.type === "float16" ? fromHalf(tensor.data) : tensor.data;
}

/**
 * The maps of the first image: one, or one a class.
 * @param {any} relevance (1, rows, columns) or (1, K, rows, columns)
 * @param {any} explained (1,) or (1, K)
 * @returns {Relevance[]}
 */
function mapsOf(relevance, explained) {
  const [rows, columns] = relevance.dims.slice(-2).map(Number);
  const values = floatsOf(relevance);
  return [...explained.data].map((target, at) => ({
    target: Number(target),
    values: values.slice(at * rows * columns, (at + 1) * rows * columns),
    rows,
    columns,
  }));
}

/**
 * How the classes stand, by task, from the likeliest.
 * @type {Readonly<Record<string, (logits: Float32Array, dims: number[], labels: string[]) => Standing[]>>}
 */
const STANDINGS = Object.freeze({
  classification(logits, dims, labels) {
    const scores = logits.subarray(0, dims.at(-1));
    const top = scores.reduce((most, score) => Math.max(most, score), -Infinity);
    const powers = Array.from(scores, (score) => Math.exp(score - top));
    const total = powers.reduce((sum, power) => sum + power, 0);
    return ranked(
      powers.map((power, at) => ({ share: power / total, score: scores[at] })),
      labels,
    );
  },
  segmentation(logits, dims, labels) {
    const [count, height, width] = dims.slice(-3).map(Number);
    const area = height * width;
    const won = new Int32Array(count);
    const sums = new Float64Array(count);
    for (let pixel = 0; pixel < area; pixel++) {
      let best = 0;
      for (let one = 0; one < count; one++) {
        const score = logits[one * area + pixel];
        sums[one] += score;
        if (score > logits[best * area + pixel]) best = one;
      }
      won[best]++;
    }
    return ranked(
      Array.from(won, (pixels, at) => ({ share: pixels / area, score: sums[at] / area })),
      labels,
    );
  },
});

/**
 * @param {{share: number, score: number}[]} found by class
 * @param {string[]} labels
 * @returns {Standing[]}
 */
function ranked(found, labels) {
  const named = found.map((standing, index) => ({ index, name: labels[index] || `class ${index}`, ...standing }));
  return named.sort((one, other) => other.share - one.share || other.score - one.score);
}
