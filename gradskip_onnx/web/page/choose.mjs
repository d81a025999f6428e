/** The ways of giving an image: a file, a drop, the clipboard, an example, the camera. */

import { byId, element } from "./elements.mjs";

/**
 * @param {(file: Blob, name: string) => void} take what to do with an image
 * @param {(error: Error) => void} fail
 */
export function offerWays(take, fail) {
  for (const input of [byId("file"), byId("capture")]) {
    input.addEventListener("change", () => {
      const [file] = input.files;
      if (file) take(file, file.name);
      input.value = ""; // so that the same file can be chosen again
    });
  }
  offerDrop(take, fail);
  document.addEventListener("paste", (event) => {
    const [file] = event.clipboardData?.files ?? [];
    if (file) take(file, file.name || "pasted image");
  });
  byId("camera").addEventListener("click", () => photograph(take, fail));
}

/**
 * Buttons for the images that came with the page.
 * @param {{file: string, name: string}[]} examples
 * @param {(file: Blob, name: string) => void} take
 * @param {(error: Error) => void} fail
 */
export function offerExamples(examples, take, fail) {
  const place = byId("examples");
  place.hidden = examples.length === 0;
  place.replaceChildren(
    ...examples.map(({ file, name }) => {
      const picture = element("img", { src: file, alt: "", width: 44, height: 44 });
      const button = element(
        "button",
        { type: "button" },
        picture,
        examples.length > 1 ? `Try “${name}”` : "Try the example",
      );
      button.addEventListener("click", async () => {
        try {
          const response = await fetch(file);
          if (!response.ok) throw new Error(`The example is missing on the server (status ${response.status}).`);
          take(await response.blob(), name);
        } catch (error) {
          fail(error);
        }
      });
      return button;
    }),
  );
}

/** Dropping anywhere on the page works; a miss must not make the browser leave it. */
function offerDrop(take, fail) {
  const drop = byId("drop");
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) drop.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [file] = event.dataTransfer?.files ?? [];
    if (file) take(file, file.name);
    else fail(new Error("That was no file: save the image first, then drop it here."));
  });
}

/** A telephone opens its own camera; elsewhere the camera is shown in a dialog. */
async function photograph(take, fail) {
  const telephone = matchMedia("(pointer: coarse)").matches;
  if (telephone || !navigator.mediaDevices?.getUserMedia) return byId("capture").click();
  const [dialog, video] = [byId("viewfinder"), byId("video")];
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: 1280 } });
  } catch (error) {
    const words = { NotFoundError: "No camera was found.", NotAllowedError: "The camera was not allowed." };
    return fail(new Error(words[error.name] ?? `The camera cannot be used (${error.name}).`));
  }
  video.srcObject = stream;
  await video.play();
  dialog.showModal();
  byId("shoot").onclick = () => {
    const canvas = element("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => blob && take(blob, "photo"), "image/png");
    dialog.close();
  };
  byId("close").onclick = () => dialog.close();
  dialog.onclose = () => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
}
