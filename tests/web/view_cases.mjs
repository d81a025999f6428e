/** Draws the maps of cases.json in the folder named: overlay and cut-out as N.overlay and N.cutout, RGBA. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cutout, groundwork, overlay } from "../../gradskip_onnx/web/page/paint.mjs";
import { viewOf } from "../../gradskip_onnx/web/page/view.mjs";

const [folder] = process.argv.slice(2);
const { drawing, cases } = JSON.parse(readFileSync(join(folder, "cases.json"), "utf8"));
const found = cases.map(({ map, place, opacity }, at) => {
  const photo = new Uint8ClampedArray(readFileSync(join(folder, `${at}.photo`)));
  const values = new Float32Array(new Uint8Array(readFileSync(join(folder, `${at}.map`))).buffer);
  const view = viewOf({ ...map, values }, place, drawing);
  const work = groundwork(photo, view, drawing);
  writeFileSync(join(folder, `${at}.overlay`), overlay(work, opacity).data);
  writeFileSync(join(folder, `${at}.cutout`), cutout(work).data);
  const { signed, whole, areaShare, notes } = view;
  return { signed, whole, areaShare, notes };
});
writeFileSync(join(folder, "found.json"), JSON.stringify(found));
