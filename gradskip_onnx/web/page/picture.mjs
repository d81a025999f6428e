/** Composes the picture that is saved: title and facts, the image and its maps, the legend in words. */

const INK = "#18181b";
const FAINT = "#606068";
const MARGIN = 24;
const GAP = 16;
const FONT = "system-ui, sans-serif";
const BAR = { width: 190, height: 15 };

/**
 * @typedef {{canvas: HTMLCanvasElement, title: string, facts: string}} Panel
 * @param {object} content
 * @param {string} content.title
 * @param {string} content.facts
 * @param {Panel[]} content.panels of one size
 * @param {{ends: [string, string], colours: HTMLCanvasElement, sample: HTMLCanvasElement, line: string}} content.legend
 * @param {string[]} content.notes
 * @returns {Promise<Blob>} a PNG
 */
export async function compose({ title, facts, panels, legend, notes }) {
  const [{ canvas: first }] = panels;
  const below = first.width > 2 * first.height; // wide panels lie below each other
  const inner = below ? first.width : panels.length * first.width + (panels.length - 1) * GAP;
  const sheet = new Sheet(Math.max(inner, 480));
  sheet.text(title, 26, INK, 600);
  sheet.text(facts, 16, FAINT);
  sheet.skip(GAP / 2);
  for (const row of below ? panels.map((panel) => [panel]) : [panels]) sheet.panels(row);
  if (legend.ends[1]) sheet.colours(legend);
  if (legend.line) sheet.sample(legend);
  sheet.text(notes.join(" · "), 14, FAINT);
  const picture = sheet.finish();
  return new Promise((resolve, reject) => {
    picture.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture is too large."))), "image/png");
  });
}

/** Collects what is drawn from the top to the bottom; the height is known at the end. */
class Sheet {
  /** @param {number} width of what lies between the margins */
  constructor(width) {
    this.width = width;
    this.bottom = MARGIN;
    /** @type {((context: CanvasRenderingContext2D) => void)[]} */
    this.steps = [];
    this.ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  }

  /** @param {number} height */
  skip(height) {
    this.bottom += height;
  }

  /** Text in as many lines as it takes. */
  text(words, size, ink, weight = 400, left = MARGIN, width = this.width) {
    const font = `${weight} ${size}px ${FONT}`;
    for (const line of wrapped(this.ruler, words, font, width)) {
      const base = this.bottom + size;
      this.steps.push((context) => write(context, line, font, ink, left, base));
      this.bottom += size * 1.35;
    }
  }

  /** @param {Panel[]} panels beside each other */
  panels(panels) {
    const top = this.bottom;
    let lowest = top;
    panels.forEach(({ canvas, title, facts }, at) => {
      const left = MARGIN + at * (canvas.width + GAP);
      this.bottom = top + canvas.height + 8;
      this.steps.push((context) => context.drawImage(canvas, left, top));
      this.text(title, 16, INK, 600, left, canvas.width);
      this.text(facts, 14, FAINT, 400, left, canvas.width);
      lowest = Math.max(lowest, this.bottom);
    });
    this.bottom = lowest + GAP;
  }

  /** The colours between their two words. */
  colours({ ends: [low, high], colours }) {
    const font = `400 15px ${FONT}`;
    this.ruler.font = font;
    const left = MARGIN + this.ruler.measureText(low).width + 10;
    const [top, base] = [this.bottom + 3, this.bottom + 16];
    this.steps.push((context) => {
      write(context, low, font, INK, MARGIN, base);
      context.drawImage(colours, left, top, BAR.width, BAR.height);
      write(context, high, font, INK, left + BAR.width + 10, base);
    });
    this.bottom += 28;
  }

  /** A piece of the line, and what it means. */
  sample({ sample, line }) {
    const top = this.bottom + 3;
    this.steps.push((context) => context.drawImage(sample, MARGIN, top, 30, 15));
    this.text(line, 15, INK, 400, MARGIN + 40, this.width - 40);
    this.bottom += 6;
  }

  finish() {
    const canvas = document.createElement("canvas");
    canvas.width = this.width + 2 * MARGIN;
    canvas.height = Math.ceil(this.bottom + MARGIN);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    for (const step of this.steps) step(context);
    return canvas;
  }
}

function write(context, text, font, ink, left, base) {
  context.font = font;
  context.fillStyle = ink;
  context.fillText(text, left, base);
}

/**
 * @param {CanvasRenderingContext2D} ruler
 * @param {string} text
 * @param {string} font
 * @param {number} width
 * @returns {string[]} lines that fit, broken at spaces or, in a word that is too long, anywhere
 */
function wrapped(ruler, text, font, width) {
  ruler.font = font;
  const fits = (line) => ruler.measureText(line).width <= width;
  const lines = [];
  for (let word of text.split(/\s+/).filter(Boolean)) {
    const joined = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && fits(joined)) {
      lines[lines.length - 1] = joined;
      continue;
    }
    while (!fits(word) && word.length > 1) {
      let length = word.length - 1;
      while (length > 1 && !fits(word.slice(0, length))) length--;
      lines.push(word.slice(0, length));
      word = word.slice(length);
    }
    lines.push(word);
  }
  return lines;
}
