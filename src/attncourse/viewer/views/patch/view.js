// Weights as they travel: 16 bits each, the low byte first; 65535 is 1.
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return Float64Array.from({ length: bytes.length / 2 }, (_, i) => (bytes[2 * i] + 256 * bytes[2 * i + 1]) / 65535);
}

// Two decimals; three where two would leave one digit or none.
const shortly = (weight) => weight.toFixed(weight >= 0.1 || weight === 0 ? 2 : 3);

function patchView(data) {
  const { grid: [rows, columns], layers, heads, what, classToken } = data;
  const first = classToken ? 1 : 0;  // the token of the upper left patch
  const tokens = rows * columns + first;
  const weights = unpacked(data.weights);
  // Head -1 is the mean of the heads. `shown` is the token that the mouse is over, and wins while it is.
  const middle = first + Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  const state = {
    layer: layers - 1, head: heads > 1 ? -1 : 0, asks: true, pinned: classToken ? 0 : middle, shown: null,
  };

  const place = (token) => `row ${Math.floor((token - first) / columns) + 1}, column ${(token - first) % columns + 1}`;
  const calledToken = (token, asking) => (token === asking ? "itself" : token < first ? "the class token" : place(token));
  const pin = (token) => { state.pinned = token; state.shown = null; draw(); };
  const show = (token) => { state.shown = token; draw(); };
  const hover = (token) => ({
    onpointerenter: (event) => { if (event.pointerType === "mouse") show(token); },
    onpointerleave: (event) => { if (event.pointerType === "mouse") show(null); },
  });

  // What a token attends to in one head, or how much each token attends to it.
  function read(token, layer, head) {
    const [of, by] = state.asks ? [token * tokens, 1] : [token, tokens];
    const start = (number) => (layer * heads + number) * tokens * tokens;
    const among = head < 0 ? Array.from({ length: heads }, (_, i) => i) : [head];
    return Array.from({ length: tokens }, (_, other) => among
      .reduce((sum, number) => sum + weights[start(number) + of + other * by], 0) / among.length);
  }

  const token = el("button", {
    type: "button", class: "token", "aria-pressed": "false", onclick: () => pin(0), onfocus: () => pin(0),
    ...hover(0), onkeydown: (event) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      patches.focus();
    },
  }, el("span", { class: "share", "aria-hidden": "true" }), el("span", {}, "class token"));
  const noun = what === "patch" ? "Patches" : "Cells";
  const patches = picture(data.image, [rows, columns], {
    name: "", label: `${noun} of the image`, hover, place: (cell) => first + cell,
    cellName: (cell) => place(first + cell), pin, leave: () => { if (classToken) token.focus(); },
  });

  const cells = patches.node.querySelectorAll(".cell");
  // Outlined is what has twice its even share, and a quarter of the largest: where all are alike, nothing is.
  const standsOut = (seen, i) => seen[i] >= 2 / tokens && seen[i] >= Math.max(...seen) / 4;

  // A small map for every layer and head, and for the mean of a layer's heads: a pixel for each patch.
  const columnsOfMaps = heads > 1 ? [-1, ...Array(heads).keys()] : [0];
  const headName = (head) => (head < 0 ? "mean" : `head ${head + 1}`);
  const called = (layer, head) => `layer ${layer + 1}, ${head < 0 ? "mean of the heads" : headName(head)}`;
  const maps = Array.from({ length: layers }, (_, layer) => columnsOfMaps.map((head, column) => el("button", {
    type: "button", class: "map", "aria-label": called(layer, head), "aria-pressed": "false", tabindex: -1,
    onclick: () => pick(layer, head), onfocus: () => pick(layer, head),
    onkeydown: (event) => move(event, layer, column),
  }, el("canvas"))));
  function move(event, layer, column) {
    const to = stepInGrid(event.key, [layer, column], [layers, columnsOfMaps.length]);
    if (!to) return;
    event.preventDefault();
    maps[to[0]][to[1]].focus();
  }
  const pick = (layer, head) => { state.layer = layer; state.head = head; draw(); };

  function drawMaps(chosen) {
    maps.forEach((row, layer) => row.forEach((map, column) => {
      const seen = read(chosen, layer, columnsOfMaps[column]);
      const largest = Math.max(...seen, 1e-9);
      // The small maps take the square root of what they are given; here the shade is the share itself.
      const shares = seen.slice(first).map((weight) => (weight / largest) ** 2);
      map.firstChild.replaceWith(thumbnail(
        Array.from({ length: rows }, (_, i) => shares.slice(i * columns, (i + 1) * columns)), data.shades));
      const picked = layer === state.layer && columnsOfMaps[column] === state.head;
      set(map, { "aria-pressed": picked, tabindex: picked ? 0 : -1 });
    }));
  }

  function draw() {
    const chosen = state.shown ?? state.pinned;
    const seen = read(chosen, state.layer, state.head);
    // The class token stands last, so that the picture measures its cells by the largest weight of all tokens.
    patches.draw([...seen.slice(first), ...seen.slice(0, first)], null, chosen < first ? null : chosen - first,
      state.pinned < first ? null : state.pinned - first);
    cells.forEach((cell, i) => cell.classList.toggle("read", standsOut(seen, first + i)));
    if (classToken) {
      const share = seen[0] / Math.max(...seen, 1e-9);
      token.classList.toggle("read", standsOut(seen, 0));
      token.classList.toggle("chosen", chosen === 0);
      token.style.setProperty("--w", share.toFixed(3));
      token.setAttribute("aria-pressed", String(state.pinned === 0));
      token.firstChild.textContent = shortly(seen[0]);
    }
    drawMaps(chosen);
    say(chosen, seen);
  }

  function say(chosen, seen) {
    const list = largestOf(seen, 0.0005, 4)
      .map(([weight, i]) => `${calledToken(i, chosen)}: ${shortly(weight)}`).join("; ");
    const who = chosen < first ? "The class token" : `The ${what} in ${place(chosen)}`;
    const does = `${state.asks ? "attends" : "is attended to"}${list && " most"} ${state.asks ? "to" : "by"}`;
    const where = layers * heads > 1 ? `${called(state.layer, state.head)}; ` : "";
    readout.replaceChildren(
      el("span", {}, el("b", {}, who), ` ${does} ${list || "nothing"}`),
      el("span", { class: "even" }, `${where}an even share is ${shortly(1 / tokens)}`));
  }

  const said = [
    ...(data.prediction == null ? [] : ["The model says ", el("b", {}, data.prediction), ". "]),
    ...(data.label == null ? [] : ["In truth: ", el("b", {}, data.label), "."]),
  ];
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? `What each ${what} attends to` });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  if (said.length) view.append(el("p", { class: "said" }, ...said));
  view.append(el("div", { class: "controls" },
    choice(`The chosen ${what}`, ["attends to", "is attended to by"], 0, (i) => { state.asks = i === 0; draw(); })));
  const answers = el("div", { class: "answers" }, readout);
  if (layers * columnsOfMaps.length > 1) {
    const table = el("div", { class: "grid", role: "group", "aria-label": "Maps by layer and head" }, el("span"),
      ...columnsOfMaps.map((head) => el("span", { class: "name" }, headName(head))),
      ...maps.flatMap((row, layer) => [el("span", { class: "name layer" }, `layer ${layer + 1}`), ...row]));
    table.style.setProperty("--heads", columnsOfMaps.length);
    table.style.setProperty("--shape", clamp(columns / rows, 0.6, 1.3).toFixed(3));
    answers.append(el("p", { class: "caption" }, "The same in every layer and head: choose one"),
      el("div", { class: "scroll" }, table));
  }
  view.append(el("div", { class: "stage" }, el("div", { class: "patches" },
    el("p", { class: "caption" }, `Choose a ${what} of the image${classToken ? ", or the class token" : ""}`),
    ...(classToken ? [token] : []), el("div", { class: "wide" }, patches.node)), answers));
  draw();
  return view;
}
