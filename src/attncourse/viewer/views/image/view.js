function imageView(data) {
  const { words, systems, boxes } = data;
  // Chosen is a word, or a cell of one system; `shown` is what the mouse is over, and wins while it is.
  const state = { pinned: { word: 0 }, shown: null };

  const cellName = (system, cell) => {
    const columns = systems[system].grid[1];
    return `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;
  };
  const pin = (place) => { state.pinned = place; state.shown = null; draw(); };
  const show = (place) => { state.shown = place; draw(); };
  const hover = (place) => ({
    onpointerenter: (event) => { if (event.pointerType === "mouse") show(place); },
    onpointerleave: (event) => { if (event.pointerType === "mouse") show(null); },
  });

  // One button a word: the word and, when a cell is chosen, a bar and a number. Arrow keys move along the row.
  const chips = words.map((word, i) => el("button", {
    type: "button", class: "chip", tabindex: i === 0 ? 0 : -1, "aria-pressed": "false",
    onclick: () => pin({ word: i }), onfocus: () => pin({ word: i }), ...hover({ word: i }),
    onkeydown: (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: words.length - 1 }[event.key];
      if (event.key === "ArrowDown") { event.preventDefault(); pictures[0].focus(); }
      if (to === undefined) return;
      event.preventDefault();
      chips[clamp(to, 0, words.length - 1)].focus();
    },
  }, el("span", { class: "word", dir: "auto" }, word),
    el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "bar" })),
    el("span", { class: "value", "aria-hidden": "true" })));

  const pictures = systems.map(({ name, grid }, system) => picture(data.image, grid, {
    name, label: name ? `Cells of the image, ${name}` : "Cells of the image", hover,
    place: (cell) => ({ system, cell }), cellName: (cell) => cellName(system, cell), pin,
    leave: () => chips[state.pinned.word ?? 0].focus(),
  }));

  function draw() {
    const chosen = state.shown ?? state.pinned;
    const ofWord = chosen.word !== undefined;
    const reads = ofWord ? null : systems[chosen.system].weights.map((row) => row[chosen.cell]);
    chips.forEach((chip, i) => {
      const weight = ofWord ? 0 : reads[i];
      chip.style.setProperty("--w", weight.toFixed(4));
      chip.querySelector(".value").textContent = weight >= 0.01 ? weight.toFixed(2) : "";
      chip.classList.toggle("shown", chosen.word === i);
      chip.setAttribute("aria-pressed", String(state.pinned.word === i));
      if (state.pinned.word !== undefined) chip.setAttribute("tabindex", state.pinned.word === i ? 0 : -1);
    });
    pictures.forEach((picture, system) => picture.draw(
      ofWord ? systems[system].weights[chosen.word] : null,
      ofWord ? boxes[chosen.word] : null,
      chosen.system === system ? chosen.cell : null,
      state.pinned.system === system ? state.pinned.cell : null));
    readout.replaceChildren(...(ofWord ? sayWord(chosen.word) : sayCell(chosen, reads)));
  }

  const listed = (values, name, mark) => largestOf(values, 0.005, 4)
    .map(([value, i]) => `${name(i)}${mark} ${value.toFixed(2)}`).join("; ");

  function sayWord(word) {
    const looks = systems.map(({ name, weights }, system) => {
      const list = listed(weights[word], (cell) => cellName(system, cell), ":") || "nothing";
      return el("span", {}, el("b", {}, named(words, word)), `${name && ` (${name})`} looks at ${list}`);
    });
    const box = boxes[word];
    const where = () => cellName(0, cellOf(box, data.image, systems[0].grid));
    return box === null ? looks : [...looks, el("span", {}, `What it names is in ${where()} (dashed)`)];
  }
  function sayCell({ system, cell }, reads) {
    const of = systems[system].name && ` (${systems[system].name})`;
    const list = listed(reads, (word) => named(words, word), "");
    const seen = list ? ` was looked at by ${list}` : " was looked at by no word";
    return [el("b", {}, cellName(system, cell) + of), seen];
  }

  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Where each word looked" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  view.append(
    el("p", { class: "caption" }, "Words: choose one to see where it looked"),
    el("div", { class: "row", role: "group", "aria-label": "Words" }, ...chips),
    el("div", { class: "pictures" }, ...pictures.map(({ node }) => node)),
    el("p", { class: "caption" }, "Cells: choose one to see which words looked there"), readout);
  draw();
  return view;
}

// The cell in which the middle of a box lies.
function cellOf([top, left, bottom, right], { width, height }, [rows, columns]) {
  const row = Math.min(rows - 1, Math.floor((top + bottom) / 2 / height * rows));
  const column = Math.min(columns - 1, Math.floor((left + right) / 2 / width * columns));
  return row * columns + column;
}

// The image with a button over every cell. A cell that is read is clear, with an outline as thick as its
// weight, dark and light so that it shows on any picture; the others recede behind a grey veil.
function picture(image, [rows, columns], { name, label, place, cellName, pin, hover, leave }) {
  const count = rows * columns;
  const cells = Array.from({ length: count }, (_, cell) => el("button", {
    type: "button", class: "cell", tabindex: cell === 0 ? 0 : -1, "aria-label": cellName(cell),
    "aria-pressed": "false", onclick: () => pin(place(cell)), onfocus: () => pin(place(cell)),
    ...hover(place(cell)), onkeydown: (event) => move(event, cell),
  }));
  function move(event, cell) {
    const [row, column] = [Math.floor(cell / columns), cell % columns];
    if (event.key === "ArrowUp" && row === 0) { event.preventDefault(); leave(); return; }
    const to = stepInGrid(event.key, [row, column], [rows, columns]);
    if (!to) return;
    event.preventDefault();
    cells[to[0] * columns + to[1]].focus();
  }
  const object = el("div", { class: "object", "aria-hidden": "true" });
  const frame = el("div", { class: "frame", role: "group", "aria-label": label }, painted(image), ...cells, object);
  set(frame, { style: `--rows: ${rows}; --columns: ${columns}; aspect-ratio: ${image.width} / ${image.height}` });
  const percent = (part, whole) => `${(100 * part / whole).toFixed(3)}%`;
  cells.forEach((cell, i) => {
    cell.style.left = percent(i % columns, columns);
    cell.style.top = percent(Math.floor(i / columns), rows);
  });

  function draw(weights, box, chosen, pinned) {
    const largest = weights === null ? 1 : Math.max(...weights, 1e-9);
    cells.forEach((cell, i) => {
      // Over a chosen cell's picture there is no veil: what matters then are the words.
      const weight = weights === null ? 0 : weights[i];
      const share = weights === null ? 1 : weight / largest;
      cell.style.setProperty("--veil", (1 - share).toFixed(3));
      cell.style.setProperty("--edge", share >= 0.25 && weights !== null ? (1 + 2.5 * weight).toFixed(2) : "0");
      cell.textContent = columns <= 5 && weight >= 0.01 ? weight.toFixed(2) : "";
      cell.classList.toggle("read", share >= 0.25 && weights !== null);
      cell.classList.toggle("chosen", i === chosen);
      cell.setAttribute("aria-pressed", String(i === pinned));
      if (pinned !== null) cell.setAttribute("tabindex", i === pinned ? 0 : -1);
    });
    object.hidden = box === null;
    if (box === null) return;
    const [top, left, bottom, right] = box;
    object.style.left = percent(left, image.width);
    object.style.top = percent(top, image.height);
    object.style.width = percent(right - left, image.width);
    object.style.height = percent(bottom - top, image.height);
  }
  const node = el("div", { class: "picture" }, ...(name ? [el("p", { class: "system" }, name)] : []), frame);
  return { node, draw, focus: () => cells.find((cell) => cell.getAttribute("tabindex") === "0").focus() };
}

// The pixels on a canvas, one for one; the style sheet enlarges them without smoothing.
function painted({ width, height, channels, bytes }) {
  const canvas = el("canvas", { width, height, "aria-hidden": "true" });
  const pixels = Uint8Array.from(atob(bytes), (character) => character.charCodeAt(0));
  const data = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) data.data[4 * i + c] = pixels[channels * i + (channels === 3 ? c : 0)];
    data.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(data, 0, 0);
  return canvas;
}
