/** Prepares the images of cases.json in the folder named: inputs as N.prepared, the parts they cover as boxes.json. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { prepare } from "../../gradskip_onnx/web/page/prepare.mjs";

const [folder] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(join(folder, "cases.json"), "utf8"));
const boxes = cases.map(({ width, height, channels, settings }, at) => {
  const data = new Uint8Array(readFileSync(join(folder, `${at}.pixels`)));
  const { values, box } = prepare({ width, height, channels, data }, settings);
  writeFileSync(join(folder, `${at}.prepared`), values);
  return box;
});
writeFileSync(join(folder, "boxes.json"), JSON.stringify(boxes));
