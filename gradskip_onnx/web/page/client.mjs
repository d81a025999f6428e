/** Asks the worker: each question is a promise, and reports its progress on the way. */

/** @type {Map<number, {resolve: (done: any) => void, reject: (error: Error) => void, report: (news: any) => void}>} */
const waiting = new Map();
let asked = 0;

/**
 * A worker made from a file of its own would not be bound by the rules of the page's Content-Security-Policy; one made
 * from a blob is, and so cannot send anything elsewhere either.
 */
function start() {
  const source = `import ${JSON.stringify(new URL("./worker.mjs", import.meta.url).href)};`;
  const made = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  made.onmessage = ({ data }) => answer(data);
  made.onerror = (event) => {
    for (const { reject } of waiting.values())
      reject(new Error(event.message || "A script of this page is missing on the server."));
    waiting.clear();
  };
  return made;
}

/** @type {Worker | null} */
let worker = null;

/**
 * @param {string} question
 * @param {object} details
 * @param {(progress: {loaded: number, total: number}) => void} [report]
 * @returns {Promise<any>}
 */
export function ask(question, details, report = () => {}) {
  worker ??= start();
  const id = ++asked;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, report });
    worker.postMessage({ id, ask: question, ...details });
  });
}

/** @param {{id: number, progress?: any, done?: any, failed?: string}} news */
function answer({ id, progress, done, failed }) {
  const question = waiting.get(id);
  if (!question) return;
  if (progress) return question.report(progress);
  waiting.delete(id);
  if (failed === undefined) question.resolve(done);
  else question.reject(new Error(failed));
}
