/** Decodes a picture file as `gradskip_onnx.images.read` does: upright, without its colour profile, over white. */

import { isWhole } from "./whole.mjs";

const MOST_PIXELS = 100_000_000;

/**
 * @param {Blob} file
 * @returns {Promise<ImageData & {channels: 4}>}
 */
export async function decode(file) {
  if (!isWhole(new Uint8Array(await file.arrayBuffer()))) {
    throw new Error("This image is cut short: its end is missing. Save or send it again.");
  }
  const bitmap = await bitmapOf(file);
  const { width, height } = bitmap;
  if (width * height > MOST_PIXELS) {
    throw new Error(`The image has ${width} × ${height} pixels; ${MOST_PIXELS / 1e6} million are the most.`);
  }
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  // read back often: kept where the processor draws, whose pixels are the same on every device
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true, colorSpace: "srgb" });
  if (!context) throw new Error(`The image has ${width} × ${height} pixels, which is too much for this browser.`);
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close?.();
  const { data } = context.getImageData(0, 0, width, height);
  return { width, height, data, channels: 4 };
}

/** @param {Blob} file */
async function bitmapOf(file) {
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image", colorSpaceConversion: "none" });
  } catch {
    return bySelf(file); // browsers without these options, and formats that only <img> knows
  }
}

/** @param {Blob} file */
async function bySelf(file) {
  const image = new Image();
  const address = URL.createObjectURL(file);
  try {
    image.src = address;
    await image.decode();
    return image;
  } catch {
    throw new Error("This file is no image that the browser can read. JPEG, PNG and WebP work everywhere.");
  } finally {
    URL.revokeObjectURL(address);
  }
}
