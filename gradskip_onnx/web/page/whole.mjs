/** Whether a picture file is whole: browsers decode what there is of one that was cut short, and fill the rest. */

const [SEGMENT, END_OF_IMAGE, START_OF_SCAN] = [0xff, 0xd9, 0xda];
const PNG = [0x89, 0x50, 0x4e, 0x47];

/**
 * @param {Uint8Array} bytes of a file
 * @returns {boolean} false for a JPEG, PNG or WebP that ends too early; other formats are not judged
 */
export function isWhole(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (bytes[0] === SEGMENT && bytes[1] === 0xd8) return jpegEnds(view);
  if (PNG.every((byte, at) => bytes[at] === byte)) return pngEnds(view);
  if (wordAt(view, 0) === "RIFF" && wordAt(view, 8) === "WEBP") return 8 + view.getUint32(4, true) <= bytes.length;
  return true;
}

/**
 * The mark of the end stands behind the first scan: in the segments before, a preview may have one of its own.
 * @param {DataView} view
 */
function jpegEnds(view) {
  let at = 2;
  while (at + 4 <= view.byteLength && view.getUint8(at) === SEGMENT && view.getUint8(at + 1) !== START_OF_SCAN) {
    at += view.getUint8(at + 1) === SEGMENT ? 1 : 2 + view.getUint16(at + 2);
  }
  for (at += 2; at + 2 <= view.byteLength; at++) {
    if (view.getUint8(at) === SEGMENT && view.getUint8(at + 1) === END_OF_IMAGE) return true;
  }
  return false;
}

/** @param {DataView} view */
function pngEnds(view) {
  for (let at = 8; at + 12 <= view.byteLength; at += 12 + view.getUint32(at)) {
    if (wordAt(view, at + 4) === "IEND") return true;
  }
  return false;
}

/**
 * Four letters, or fewer where the file ends.
 * @param {DataView} view
 * @param {number} at
 */
function wordAt(view, at) {
  const letters = new Uint8Array(view.buffer, view.byteOffset + at, Math.max(0, Math.min(4, view.byteLength - at)));
  return String.fromCharCode(...letters);
}
