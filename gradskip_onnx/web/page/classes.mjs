/** The list of classes, with their shares as bars, and the search for any other. */

import { byId, element } from "./elements.mjs";

const LIKELIEST = 5; // rows of the list
const FOUND = 8; // rows of the search

/**
 * @typedef {import("./explainer.mjs").Standing} Standing
 * @param {object} content
 * @param {Standing[]} content.classes from the likeliest
 * @param {number[]} content.shown indices of the classes shown: one, or two that are compared
 * @param {Set<number> | null} content.open those that can be explained; null: all
 * @param {string} content.unit what a share is of
 * @param {(index: number) => void} content.explain
 * @param {(index: number) => void} content.compare
 * @param {(words: string) => void} content.announce for screen readers
 */
export function listClasses(content) {
  const { classes, shown, open } = content;
  const focused = /** @type {HTMLElement} */ (document.activeElement)?.dataset.key;
  const chosen = classes.filter(({ index }, rank) => rank < LIKELIEST || shown.includes(index));
  byId("classes").replaceChildren(...chosen.map((standing) => row(standing, content)));
  byId("find").hidden = classes.length <= LIKELIEST || open !== null;
  const query = byId("query");
  query.oninput = () => {
    const hits = search(classes, query.value).slice(0, FOUND);
    byId("found").replaceChildren(...hits.map((standing) => row(standing, content)));
    if (query.value && hits.length === 0) byId("found").replaceChildren(element("li", {}, "No class of that name."));
    if (query.value && document.activeElement === query) {
      content.announce(hits.length ? `${hits.length} classes found.` : "No class of that name.");
    }
  };
  query.oninput();
  if (focused) focusAgain(focused);
}

/** Gives the focus back to the button that had it before the lists were made anew, or to its neighbour. */
function focusAgain(key) {
  const [kind, index] = key.split(" ");
  const side = byId("side");
  const same = side.querySelector(`[data-key="${key}"]:enabled`);
  (
    same ??
    side.querySelector(`[data-key="class ${index}"]:enabled`) ??
    side.querySelector(`.${kind}:enabled`)
  )?.focus();
}

/**
 * Classes whose number is the text or whose name holds it; those whose name begins with it first.
 * @param {Standing[]} classes
 * @param {string} text
 */
function search(classes, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const hits = classes.filter(({ index, name }) => String(index) === wanted || name.toLowerCase().includes(wanted));
  const begins = ({ name }) => (name.toLowerCase().startsWith(wanted) ? 0 : 1);
  return hits.sort((one, other) => begins(one) - begins(other));
}

/** A class: a button that explains it, and one that puts it beside the class shown. */
function row({ index, name, share }, { shown, open, unit, explain, compare }) {
  const words = percent(share);
  const fill = element("span", { className: "fill" });
  fill.style.width = `${100 * share}%`;
  const main = element(
    "button",
    {
      type: "button",
      className: "class",
      "aria-pressed": shown[0] === index,
      "aria-label": `${name}, ${unit} ${words}`,
    },
    fill,
    element("span", { className: "name" }, name),
    element("span", { className: "share" }, words),
  );
  main.dataset.key = `class ${index}`;
  main.addEventListener("click", () => explain(index));
  const beside = shown[1] === index;
  const other = element(
    "button",
    { type: "button", className: "compare", "aria-pressed": beside, "aria-label": `Compare with ${name}` },
    "Compare",
  );
  other.dataset.key = `compare ${index}`;
  other.addEventListener("click", () => compare(index));
  other.disabled = shown[0] === index;
  for (const button of [main, other]) if (open && !open.has(index)) button.disabled = true;
  return element("li", {}, main, other);
}

/** @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.001) return "<\u00a00.1\u00a0%";
  return share < 1 && share > 0.999 ? ">\u00a099.9\u00a0%" : `${(100 * share).toFixed(1)}\u00a0%`;
}
