/**
 * Paints the panels of a picture as `gradskip_onnx.drawing.panels` does: a calm grey photograph, colours over it, a
 * line around the outlined area.
 *
 * @typedef {import("./view.mjs").MapView} MapView
 * @typedef {import("./view.mjs").Drawing & Record<string, any>} Style
 */

import { blurred } from "./view.mjs";

/**
 * What does not change while the opacity does: the grey photograph, and how near each pixel is to the line.
 * @param {Uint8ClampedArray} photo RGBA at the size of the panel
 * @param {MapView} view
 * @param {Style} style
 */
export function groundwork(photo, view, style) {
  return { photo, view, style, ground: groundOf(photo, view, style), line: lineOf(view, style) };
}

/** @typedef {ReturnType<typeof groundwork>} Groundwork */

/**
 * The map over the grey photograph.
 * @param {Groundwork} work
 * @param {number} opacity how far the strongest colour covers the photograph, 0 to 1
 * @param {boolean} [outlined] whether the line is drawn
 * @returns {ImageData}
 */
export function overlay({ view, style, ground, line }, opacity, outlined = true) {
  const drawn = Float32Array.from(ground);
  const { none_below: none, cover_curve: curve, palettes } = style;
  eachSeen(view, (pixel, at) => {
    const strength = view.strength[at];
    const much = Math.abs(strength);
    if (much <= none) return;
    const table = strength < 0 ? palettes.against : view.signed ? palettes.for : palettes.heat;
    const cover = opacity * ((much - none) / (1 - none)) ** curve;
    const entry = Math.round(much * (table.length / 3 - 1)) * 3;
    for (let channel = 0; channel < 3; channel++) {
      drawn[pixel * 3 + channel] += cover * (table[entry + channel] - drawn[pixel * 3 + channel]);
    }
  });
  frame(drawn, view, style.frame);
  if (outlined) drawLine(drawn, line, style);
  return asImage(drawn, view);
}

/**
 * The outlined area in its own colours, everything else dark.
 * @param {Groundwork} work
 * @returns {ImageData}
 */
export function cutout({ photo, view, style, ground, line }) {
  const drawn = Float32Array.from(ground, (value) => value * style.shade);
  eachSeen(view, (pixel, at) => {
    if (!view.area[at]) return;
    for (let channel = 0; channel < 3; channel++) drawn[pixel * 3 + channel] = photo[pixel * 4 + channel];
  });
  drawLine(drawn, line, style);
  return asImage(drawn, view);
}

/**
 * @param {MapView} view
 * @param {(pixel: number, at: number) => void} visit a pixel of the panel, and its place in what the model saw
 */
function eachSeen({ seen, width }, visit) {
  for (let row = 0, at = 0; row < seen.height; row++) {
    const start = (row + seen.top) * width + seen.left;
    for (let column = 0; column < seen.width; column++) visit(start + column, at++);
  }
}

/**
 * The photograph, grey and darkened (H, W, 3); darker still where the model did not see it.
 * @param {Uint8ClampedArray} photo
 * @param {MapView} view
 * @param {Style} style
 */
function groundOf(photo, view, { colour_kept: kept, darkest, lightest, shadows, unseen }) {
  const tones = Float32Array.from(
    { length: 256 },
    (_, tone) => 255 * (darkest + (lightest - darkest) * (tone / 255) ** shadows),
  );
  const light = new Float32Array(photo.length / 4).fill(unseen);
  eachSeen(view, (pixel) => (light[pixel] = 1));
  const ground = new Float32Array(light.length * 3);
  for (let pixel = 0, from = 0, to = 0; pixel < light.length; pixel++, from += 4) {
    const grey = (photo[from] * 19595 + photo[from + 1] * 38470 + photo[from + 2] * 7471 + 0x8000) >> 16;
    for (let channel = 0; channel < 3; channel++) {
      ground[to++] = light[pixel] * tones[Math.trunc(grey + kept * (photo[from + channel] - grey))];
    }
  }
  return ground;
}

/**
 * A hairline around what the model saw, where that is not all of the image.
 * @param {Float32Array} drawn
 * @param {MapView} view
 * @param {number[]} colour
 */
function frame(drawn, { seen, width, height }, colour) {
  const { top, left } = seen;
  const [bottom, right] = [top + seen.height - 1, left + seen.width - 1];
  const put = (row, column) => drawn.set(colour, (row * width + column) * 3);
  for (let column = left; column <= right; column++) {
    if (top > 0) put(top, column);
    if (bottom < height - 1) put(bottom, column);
  }
  for (let row = top; row <= bottom; row++) {
    if (left > 0) put(row, left);
    if (right < width - 1) put(row, right);
  }
}

/**
 * The pixels near the edge of the area, and their distances to it. A blurred step is the normal distribution of the
 * distance to the step: its quantiles are lines at given distances.
 * @param {MapView} view
 * @param {Style} style
 * @returns {{width: number, pixels: number[], distances: number[]}}
 */
function lineOf({ width, height, seen, area }, style) {
  const [thin, thick] = style.line_widths;
  const wide = Math.min(thick, Math.max(thin, Math.sqrt(width * height) * style.line_width));
  const found = { width: wide, pixels: [], distances: [] };
  if (!area.includes(1)) return found;
  const margin = Math.ceil(4 * wide);
  const across = width + 2 * margin;
  const mask = new Float64Array(across * (height + 2 * margin));
  for (let row = 0, to = 0; row < height + 2 * margin; row++) {
    const y = clamp(row - margin, height) - seen.top; // the edge of the panel goes on outside of it
    for (let column = 0; column < across; column++, to++) {
      const x = clamp(column - margin, width) - seen.left;
      if (y >= 0 && y < seen.height && x >= 0 && x < seen.width) mask[to] = area[y * seen.width + x];
    }
  }
  const soft = blurred(mask, across, [wide, wide]);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const share = soft[(row + margin) * across + column + margin];
      if (share < 1 / 510 || share > 1 - 1 / 510) continue; // less than half a step of a byte
      found.pixels.push(row * width + column);
      found.distances.push(Math.abs(Math.log(share / (1 - share)) / 1.702) * wide);
    }
  }
  return found;
}

/**
 * @param {number} at
 * @param {number} length
 */
function clamp(at, length) {
  return Math.min(length - 1, Math.max(0, at));
}

/**
 * @param {Float32Array} drawn
 * @param {ReturnType<typeof lineOf>} line
 * @param {Style} style
 */
function drawLine(drawn, { width, pixels, distances }, style) {
  pixels.forEach((pixel, at) => {
    const casing = 0.75 * within(distances[at], (style.casing * width) / 2);
    const inner = within(distances[at], width / 2);
    for (let channel = 0; channel < 3; channel++) {
      const place = pixel * 3 + channel;
      const cased = drawn[place] + casing * (style.dark[channel] - drawn[place]);
      drawn[place] = cased + inner * (style.line[channel] - cased);
    }
  });
}

/**
 * 1 up to `reach`, 0 one pixel further: a smooth edge.
 * @param {number} distance
 * @param {number} reach
 */
function within(distance, reach) {
  return Math.min(1, Math.max(0, reach + 0.5 - distance));
}

/**
 * @param {Float32Array} drawn
 * @param {MapView} view
 */
function asImage(drawn, { width, height }) {
  const data = new Uint8ClampedArray(width * height * 4); // rounds to the nearest
  for (let from = 0, to = 0; from < drawn.length; to++) {
    for (let channel = 0; channel < 3; channel++) data[to++] = drawn[from++];
    data[to] = 255;
  }
  return { width, height, data };
}
