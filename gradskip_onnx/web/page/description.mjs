/**
 * Reads and adapts the bytes of an ONNX file, without parsing its graph: it is a protocol buffer, of which only the
 * outermost fields are walked.
 *
 * @typedef {object} Built what `gradskip-onnx build` says of the file it wrote
 * @property {string} method
 * @property {"classification" | "segmentation"} task
 * @property {number} classes
 * @property {[number, number]} image_size
 * @property {"inside" | "outside"} preprocessing
 * @property {number} top 0, or how many classes one run explains
 * @property {boolean} smoothed
 * @property {{image: string, target: string | null, region: string | null}} inputs
 * @property {{logits: string, relevance: string, explained: string}} outputs
 * @typedef {object} Description
 * @property {Built} built
 * @property {import("./prepare.mjs").Preprocess} preprocess
 * @property {string[]} labels
 * @property {{input_layout?: string, blocks?: {grid: [number, number]}[]}} anatomy
 */

const KEY = "gradskip_onnx"; // of the entry in the metadata
const GRAPH = 7; // fields of ModelProto
const METADATA = 14;
const INITIALIZER = 5; // of GraphProto
const NAME = 8; // of TensorProto
const UNUSED = 6; // a field that GraphProto does not have: readers skip it
const LENGTH_DELIMITED = 2;

/**
 * The description that `gradskip-onnx build` left in a file.
 * @param {Uint8Array} bytes
 * @returns {Description}
 */
export function readDescription(bytes) {
  for (const field of fieldsOf(bytes, 0, bytes.length)) {
    if (field.number !== METADATA) continue;
    const entry = Object.fromEntries(
      [...fieldsOf(bytes, field.start, field.end)].map((part) => [part.number, textOf(bytes, part)]),
    );
    const document = entry[1] === KEY ? JSON.parse(entry[2]) : {};
    if (document.built) return { labels: [], anatomy: {}, ...document };
  }
  throw new Error("the model does not explain itself: write it with `gradskip-onnx build`");
}

/**
 * Makes inputs with a default value ordinary ones, in place: ONNX Runtime for JavaScript cannot be given the others.
 * One byte an input is changed, the kind of the field that holds the default.
 * @param {Uint8Array} bytes
 * @param {(string | null)[]} names
 */
export function requireInputs(bytes, names) {
  for (const graph of fieldsOf(bytes, 0, bytes.length)) {
    if (graph.number !== GRAPH) continue;
    for (const field of fieldsOf(bytes, graph.start, graph.end)) {
      if (field.number !== INITIALIZER) continue;
      for (const part of fieldsOf(bytes, field.start, field.end)) {
        if (part.number === NAME && names.includes(textOf(bytes, part))) {
          bytes[field.tag] = (UNUSED << 3) | LENGTH_DELIMITED;
        }
      }
    }
  }
}

/**
 * The fields of the message in bytes `start` to `end`: number, place of the tag, and where the content lies.
 * @param {Uint8Array} bytes
 * @param {number} start
 * @param {number} end
 */
function* fieldsOf(bytes, start, end) {
  let at = start;
  const varint = () => {
    let value = 0;
    for (let factor = 1; at < end; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
    throw new Error("the model file is cut short or damaged");
  };
  while (at < end) {
    const tag = at;
    const head = varint();
    const kind = head % 8;
    const length = kind === LENGTH_DELIMITED ? varint() : { 1: 8, 5: 4 }[kind];
    const from = at;
    if (length === undefined) varint();
    else at += length;
    if (at > end) throw new Error("the model file is cut short or damaged");
    yield { number: Math.floor(head / 8), tag, start: from, end: at };
  }
}

/**
 * @param {Uint8Array} bytes
 * @param {{start: number, end: number}} field
 */
function textOf(bytes, field) {
  return new TextDecoder().decode(bytes.subarray(field.start, field.end));
}
