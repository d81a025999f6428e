/**
 * Explains an image with a file written by `gradskip-onnx build`.
 *
 *     node explain.mjs explained.onnx photo.jpg [CLASS]
 *
 * Prints the likeliest classes, and writes the map beside the image: photo.relevance.npy, float32, at the size of the
 * model's input. CLASS is the index of a class; without it the likeliest is explained.
 */

import { readFile, writeFile } from "node:fs/promises";
import { parse } from "node:path";
import ort from "onnxruntime-node";
import sharp from "sharp";
// The modules of the page; a site of `gradskip-onnx web` has them too.
import { explain, open, PREDICTED } from "../../../gradskip_onnx/web/page/explainer.mjs";

const [modelPath, imagePath, target = PREDICTED] = process.argv.slice(2);
if (!imagePath) {
  console.error("usage: node explain.mjs explained.onnx photo.jpg [CLASS]");
  process.exit(2);
}

await main().catch((error) => {
  console.error(`error: ${error.message}`);
  process.exit(2);
});

async function main() {
  const model = await open(ort, new Uint8Array(await readFile(modelPath)), { logSeverityLevel: 3 });
  const { classes, maps, box } = await explain(model, await decode(imagePath), Number(target));
  for (const { index, name, share, score } of classes.slice(0, 5)) {
    console.log(`${String(index).padStart(5)}  ${share.toFixed(4)}  ${score.toFixed(3).padStart(8)}  ${name}`);
  }
  const { dir, name } = parse(imagePath);
  const written = `${dir || "."}/${name}.relevance.npy`;
  await writeFile(written, npy(maps[0]));
  console.log(
    JSON.stringify({ explained: maps[0].target, rows: maps[0].rows, columns: maps[0].columns, box, written }),
  );
}

/**
 * The pixels of an image file: turned as its camera says, over white, its colour profile left aside, as in Python.
 * @param {string} path
 */
async function decode(path) {
  const image = sharp(path, { ignoreIcc: true }).autoOrient().flatten({ background: "#fff" }).toColourspace("srgb");
  const { data, info } = await image.raw({ depth: "uchar" }).toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: info.channels, data };
}

/**
 * The bytes of a file that `numpy.load` reads.
 * @param {import("../../../gradskip_onnx/web/page/explainer.mjs").Relevance} map
 */
function npy({ rows, columns, values }) {
  const shape = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const head = shape.padEnd(128 - 10 - 1) + "\n";
  return Buffer.concat([
    Buffer.from("\x93NUMPY\x01\x00\x76\x00", "latin1"),
    Buffer.from(head),
    Buffer.from(values.buffer),
  ]);
}
