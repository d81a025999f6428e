/** Converts between numbers of 32 and of 16 bits, which not every browser knows. */

const BITS = new DataView(new ArrayBuffer(4));

/**
 * @param {Float32Array} values
 * @returns {Uint16Array} their bits, rounded to the nearest, ties to the even one
 */
export function toHalf(values) {
  return Uint16Array.from(values, (value) => {
    BITS.setFloat32(0, value);
    const bits = BITS.getUint32(0);
    const sign = (bits >>> 16) & 0x8000;
    const size = Math.abs(value);
    if (!(size < 65520)) return sign | (Number.isNaN(value) ? 0x7e00 : 0x7c00);
    if (size < 2 ** -14) return sign | roundEven(size * 2 ** 24); // steps of the smallest numbers
    const exponent = ((bits >>> 23) & 0xff) - 112;
    return sign | ((exponent << 10) + roundEven((bits & 0x7fffff) / 2 ** 13)); // may carry into the exponent
  });
}

/**
 * @param {Uint16Array | ArrayLike<number>} halves bits, or numbers where the runtime has decoded them
 * @returns {Float32Array}
 */
export function fromHalf(halves) {
  if (!(halves instanceof Uint16Array)) return Float32Array.from(halves);
  return Float32Array.from(halves, (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
  });
}

/** @param {number} value */
function roundEven(value) {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}
