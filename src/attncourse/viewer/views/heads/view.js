// One head as a small map: a pixel for each weight, a row for each query. The style sheet enlarges it unsmoothed.
function thumbnail(weights, shades) {
  const [width, height] = [weights[0].length, weights.length];
  const canvas = el("canvas", { width, height, "aria-hidden": "true" });
  const picture = new ImageData(width, height);
  weights.flat().forEach((weight, i) => {
    // The square root lifts thin weights into view: 1/25 is drawn like a fifth.
    const shade = shades[Math.round(Math.sqrt(clamp(weight, 0, 1)) * (shades.length - 1))];
    const parts = [1, 3, 5].map((start) => parseInt(shade.slice(start, start + 2), 16));
    picture.data.set([...parts, 255], 4 * i);
  });
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}

// How sharp a head is: the largest weight of a row, on average over the rows that read anything.
function sharpness(weights) {
  const largest = weights.map((row) => Math.max(...row)).filter((weight) => weight > 0);
  return largest.length ? largest.reduce((sum, weight) => sum + weight, 0) / largest.length : 0;
}

// One relation: the grid of small maps and, below it, the chosen head. Both are kept, so that whoever comes back
// to a relation finds it as it was left.
function relationPanel({ name, queries, keys, weights, names }, shades) {
  const [layers, heads] = [weights.length, weights[0].length];
  const chosen = { layer: 0, head: 0 };
  const nameOf = (layer, head) => names.find((own) => own.layer === layer && own.head === head)?.name;
  const called = (layer, head) => `layer ${layer + 1}, head ${head + 1}`;

  const buttons = weights.map((row, layer) => row.map((matrix, head) => {
    const own = nameOf(layer, head);
    return el("button", {
      type: "button", class: "map", "aria-label": called(layer, head) + (own ? `: ${own}` : ""), title: own,
      "aria-pressed": "false", tabindex: -1, onclick: () => pick(layer, head), onfocus: () => pick(layer, head),
      onkeydown: (event) => move(event, layer, head),
    }, thumbnail(matrix, shades), ...(own ? [el("span", { class: "mark", "aria-hidden": "true" })] : []));
  }));
  const grid = el("div", { class: "grid", role: "group", "aria-label": `Heads by layer, ${name}` },
    el("span"), ...weights[0].map((_, head) => el("span", { class: "name" }, `head ${head + 1}`)),
    ...buttons.flatMap((row, layer) => [el("span", { class: "name layer" }, `layer ${layer + 1}`), ...row]));
  grid.style.setProperty("--heads", heads);
  grid.style.setProperty("--shape", clamp(keys.length / queries.length, 0.6, 1.7).toFixed(3));

  // The temperature slider draws the view anew from whatever data it holds: the word that was chosen stays
  // chosen, and so does the temperature.
  const shown = { title: null, heads: [""], queries, keys, weights: [weights[0][0]], scores: null, partial: false };
  const enlarged = attentionView(shown);
  enlarged.setAttribute("aria-label", "The chosen head");
  const redraw = () => enlarged.querySelector("input[type=range]").dispatchEvent(new Event("input"));
  const which = el("p", { class: "which" });

  function move(event, layer, head) {
    const to = stepInGrid(event.key, [layer, head], [layers, heads]);
    if (!to) return;
    event.preventDefault();
    buttons[to[0]][to[1]].focus();
  }

  function pick(layer, head) {
    const before = buttons[chosen.layer][chosen.head];
    set(before, { tabindex: -1, "aria-pressed": "false" });
    set(buttons[layer][head], { tabindex: 0, "aria-pressed": "true" });
    Object.assign(chosen, { layer, head });
    shown.weights = [weights[layer][head]];
    const own = nameOf(layer, head);
    const sharp = sharpness(weights[layer][head]).toFixed(2);
    which.replaceChildren(el("b", {}, `Layer ${layer + 1}, head ${head + 1}${own ? `: ${own}` : ""}`),
      el("span", {}, `largest weight of a row, on average ${sharp}`));
    redraw();
  }
  pick(0, 0);
  return el("div", { class: "relation" },
    el("div", { class: "scroll" }, grid), el("div", { class: "chosen" }, which, enlarged));
}

function headsView(data) {
  const panels = data.relations.map((relation) => relationPanel(relation, data.shades));
  const show = (i) => panels.forEach((panel, j) => { panel.hidden = j !== i; });
  show(0);
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Attention by layer and head" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  const bar = el("span", { class: "scale", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${data.shades.map((shade, i, all) =>
    `${shade} ${(100 * (i / (all.length - 1)) ** 2).toFixed(1)}%`).join(", ")})`;
  const key = el("p", { class: "key" }, el("span", { class: "name" }, "Row: query. Column: key. Weight"),
    el("span", { class: "end" }, "0"), bar, el("span", { class: "end" }, "1"));
  if (data.relations.some(({ names }) => names.length > 0)) {
    key.append(el("span", { class: "mark" }), el("span", { class: "name" }, "has a name"));
  }
  const controls = el("div", { class: "controls" });
  if (panels.length > 1) {
    controls.append(choice("Attention", data.relations.map(({ name }) => name), 0, show));
  }
  controls.append(key);
  view.append(controls, ...panels);
  return view;
}
