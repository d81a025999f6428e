"use strict";
// Chooses and orders the images of the gallery, and shows one of them large. Without it all of them are there.
(() => {
  const byId = (id) => document.getElementById(id);
  const gallery = byId("gallery"), items = [...gallery.children], dialog = byId("large");
  const fields = ["words", "class", "answer", "belief", "order"].map(byId);
  const [words, kind, answer, belief, order] = fields;

  const fits = (item) =>
    item.dataset.name.includes(words.value.trim().toLowerCase()) &&
    (!kind.value || item.dataset.class === kind.value) &&
    (!answer.value || item.dataset.answer === answer.value) &&
    (!belief.value || item.dataset.belief === belief.value);

  const update = () => {
    const [key, direction] = order.value.split(":"), sign = direction === "down" ? -1 : 1;
    const number = (item) => (key in item.dataset ? sign * Number(item.dataset[key]) : Infinity); // without a value: last
    const place = (item) => Number(item.dataset.position);
    items.sort((a, b) => (number(a) < number(b) ? -1 : number(a) > number(b) ? 1 : place(a) - place(b)));
    let shown = 0;
    for (const item of items) {
      item.hidden = !fits(item);
      shown += !item.hidden;
    }
    gallery.append(...items);
    byId("count").textContent = `${shown} of ${items.length} shown`;
  };

  const enlarge = (item) => {
    const pictures = [...item.querySelectorAll("img")].reverse(); // the photograph, then the map
    byId("large-title").textContent = item.querySelector(".who").textContent;
    const row = document.createElement("div");
    row.className = "pair";
    row.append(...pictures.map((picture) => picture.cloneNode()));
    const texts = [...item.querySelectorAll("p:not(.who)")].map((text) => text.cloneNode(true));
    byId("large-body").replaceChildren(row, ...texts);
    dialog.showModal();
  };

  gallery.addEventListener("click", (event) => {
    const button = event.target.closest("button.enlarge");
    if (button) enlarge(button.closest("li"));
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // outside its content
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const field of fields) field.addEventListener("input", update);
  for (const button of gallery.querySelectorAll("button.enlarge")) button.disabled = false;
  byId("controls").hidden = false;
  update();
})();
