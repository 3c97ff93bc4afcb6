function detectionView(data) {
  if (!data.encoder) return queriesView(data);
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "What the detector sees" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  const panels = [queriesView({ ...data, title: null }), patchView({ ...data.encoder, image: data.image, title: null })];
  const show = (i) => panels.forEach((panel, j) => { panel.hidden = j !== i; });
  show(0);
  view.append(el("div", { class: "controls" },
    choice("Look at", ["the object queries", "the encoder’s cells"], 0, show)), ...panels);
  return view;
}

// The queries of one image: its boxes, and a list of who drew them.
function queriesView(data) {
  const { image, classes, boxes, probabilities, maps, trueBoxes, trueLabels } = data;
  const count = boxes.length;
  const objects = probabilities.map((row) => row.slice(0, -1));
  const scores = objects.map((row) => Math.max(...row));
  const labels = objects.map((row, query) => row.indexOf(scores[query]));
  // The surest first, so that the threshold cuts the list in two.
  const order = [...boxes.keys()].sort((a, b) => scores[b] - scores[a]);
  const weights = maps.map((map) => unpacked(map.weights));
  // Chosen is a query or, as null, all of them; `shown` is what the mouse is over, and wins while it is.
  const state = { threshold: data.threshold, map: 0, truth: false, pinned: null, shown: undefined };
  const pin = (query) => { state.pinned = query; state.shown = undefined; draw(); };
  const show = (query) => { if (state.shown !== query) { state.shown = query; draw(); } };
  const sure = (query) => scores[query] >= state.threshold;

  // One button for all boxes, one for each query. Arrow keys move along the row.
  const chips = [null, ...order].map((query, i, all) => el("button", {
    type: "button", class: query === null ? "chip every" : "chip", tabindex: i === 0 ? 0 : -1, "aria-pressed": "false",
    onclick: () => pin(query), onfocus: () => pin(query),
    onpointerenter: (event) => { if (event.pointerType === "mouse") show(query); },
    onpointerleave: (event) => { if (event.pointerType === "mouse") show(undefined); },
    onkeydown: (event) => {
      const to = {
        ArrowRight: i + 1, ArrowDown: i + 1, ArrowLeft: i - 1, ArrowUp: i - 1, Home: 0, End: all.length - 1,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      chips[clamp(to, 0, all.length - 1)].focus();
    },
  }, ...(query === null ? ["all boxes"] : [
    el("span", { class: "kind" }, classes[labels[query]]),
    el("span", { class: "score" }, `: ${number(scores[query])} `),
    el("span", { class: "who" }, `query ${query + 1}`)])));

  const picture = boxesPicture(image, maps[0]?.grid ?? null, {
    boxes, tags: order.map((query) => [query, `${classes[labels[query]]}: ${number(scores[query])}`]),
    trueBoxes, trueTags: trueLabels.map((label) => classes[label]),
    point: (at) => show(at === null ? undefined : under(at)), press: (at) => pin(under(at)),
  });
  // The smallest of the boxes shown that lies under a point; all boxes where there is none.
  function under([row, column]) {
    const size = ([top, left, bottom, right]) => (bottom - top) * (right - left);
    const hit = order.filter((query) => {
      const [top, left, bottom, right] = boxes[query];
      return sure(query) && top <= row && row <= bottom && left <= column && column <= right;
    });
    return hit.length ? hit.reduce((a, b) => (size(boxes[b]) < size(boxes[a]) ? b : a)) : null;
  }

  const slider = el("input", {
    type: "range", min: 0, max: 1, step: 0.01, value: state.threshold, "aria-label": "Threshold of the score",
    oninput: () => { state.threshold = Number(slider.value); draw(); },
  });
  const reading = el("span", { class: "reading" });

  function draw() {
    const chosen = state.shown === undefined ? state.pinned : state.shown;
    [null, ...order].forEach((query, i) => {
      chips[i].classList.toggle("shown", query === chosen);
      chips[i].classList.toggle("unsure", query !== null && !sure(query));
      set(chips[i], { "aria-pressed": query === state.pinned, tabindex: query === state.pinned ? 0 : -1 });
    });
    const kept = order.filter(sure);
    const above = `${kept.length} of ${count}`;
    reading.textContent = `${state.threshold.toFixed(2)}: ${above} boxes`;
    slider.setAttribute("aria-valuetext", `${state.threshold.toFixed(2)}: ${above} boxes are left`);
    picture.draw(chosen === null || !maps.length ? null : looks(chosen), chosen === null ? kept : [chosen], chosen,
      state.truth);
    readout.replaceChildren(...(chosen === null ? sayAll(kept) : sayQuery(chosen)));
  }
  const looks = (query) => {
    const [rows, columns] = maps[state.map].grid;
    return [...weights[state.map].slice(query * rows * columns, (query + 1) * rows * columns)];
  };

  function sayAll(kept) {
    const list = kept.slice(0, 8).map((query) => `“${classes[labels[query]]}” ${number(scores[query])} (query ${query + 1})`);
    const more = kept.length > 8 ? `; and ${kept.length - 8} more` : "";
    const said = [el("span", {}, el("b", {}, `${kept.length} of ${count} queries`),
      ` have a score of at least ${state.threshold.toFixed(2)}${list.length ? ": " : ""}${list.join("; ")}${more}`)];
    if (state.truth) {
      said.push(el("span", {}, `In truth (dashed): ${trueLabels.map((label) => `“${classes[label]}”`).join(", ")}`));
    }
    return said;
  }
  function sayQuery(query) {
    const [top, left, bottom, right] = boxes[query].map((x) => x.toFixed(1).replace("-", "−"));
    const likely = largestOf(probabilities[query], 0.005, 3)
      .map(([p, i]) => `${i < classes.length ? `“${classes[i]}”` : "no object"} ${number(p)}`);
    const said = [el("span", {}, el("b", {}, `Query ${query + 1}`), ` answers ${likely.join(", ")}`),
      el("span", {}, `Its box: rows ${top} to ${bottom}, columns ${left} to ${right}`)];
    if (maps.length) {
      const columns = maps[state.map].grid[1];
      const list = largestOf(looks(query), 0.005, 3)
        .map(([weight, i]) => `row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}: ${shortly(weight)}`);
      said.push(el("span", {}, `It attends ${list.length ? "most to the cells in " : "to no cell"}${list.join("; ")}`));
    }
    return said;
  }

  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "What the queries found" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  const controls = el("div", { class: "controls" },
    el("div", { class: "temperature threshold" }, el("span", { class: "name" }, "Score at least"), slider, reading));
  if (maps.length > 1) {
    controls.append(choice("Attention of", maps.map(({ name }) => name), 0, (i) => { state.map = i; draw(); }));
  }
  if (trueBoxes.length) {
    const box = el("input", { type: "checkbox", onchange: () => { state.truth = box.checked; draw(); } });
    controls.append(el("label", { class: "truth" }, box, el("span", {}, "show the true boxes")));
  }
  view.append(controls, el("div", { class: "stage" }, el("div", { class: "boxes" }, picture.node),
    el("div", { class: "answers" },
      el("p", { class: "caption" }, `Choose a query to see its box${maps.length ? " and where it looked" : ""}`),
      el("div", { class: "queries", role: "group", "aria-label": "Queries, the surest first" }, ...chips), readout)));
  draw();
  return view;
}

// The image with its boxes; over it, when a query is chosen, the veil of `picture`. What the mouse does here the
// list of queries does too, so nothing in it takes the focus.
function boxesPicture(image, grid, { boxes, tags, trueBoxes, trueTags, point, press }) {
  const [rows, columns] = grid ?? [1, 1];
  const percent = (part, whole) => `${(100 * part / whole).toFixed(3)}%`;
  const cells = Array.from({ length: rows * columns }, () => el("div", { class: "cell" }));
  cells.forEach((cell, i) => {
    cell.style.left = percent(i % columns, columns);
    cell.style.top = percent(Math.floor(i / columns), rows);
  });
  function drawn(kind, box, tag) {
    const [top, left, bottom, right] = box.map((x, i) => clamp(x, 0, i % 2 ? image.width : image.height));
    const node = el("div", { class: kind }, el("span", { class: "tag" }, tag));
    node.style.left = percent(left, image.width);
    node.style.top = percent(top, image.height);
    node.style.width = percent(right - left, image.width);
    node.style.height = percent(bottom - top, image.height);
    // A label stands above its box, or inside where there is no room; near the right rim it ends with it.
    node.classList.toggle("high", top < 0.08 * image.height);
    node.classList.toggle("right", left > 0.65 * image.width);
    return node;
  }
  // The surest are drawn last, over the others.
  const found = new Map([...tags].reverse().map(([query, tag]) => [query, drawn("found", boxes[query], tag)]));
  const objects = trueBoxes.map((box, i) => drawn("object", box, trueTags[i]));
  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return [(event.clientY - box.top) / box.height * image.height, (event.clientX - box.left) / box.width * image.width];
  };
  const frame = el("div", {
    class: "frame", "aria-hidden": "true", onclick: (event) => press(place(event)),
    onpointermove: (event) => { if (event.pointerType === "mouse") point(place(event)); },
    onpointerleave: (event) => { if (event.pointerType === "mouse") point(null); },
  }, painted(image), ...cells, ...found.values(), ...objects);
  set(frame, { style: `--rows: ${rows}; --columns: ${columns}; aspect-ratio: ${image.width} / ${image.height}` });

  function draw(weights, shown, chosen, truth) {
    const largest = weights === null ? 1 : Math.max(...weights, 1e-9);
    cells.forEach((cell, i) => {
      const share = weights === null ? 1 : weights[i] / largest;
      cell.style.setProperty("--veil", (1 - share).toFixed(3));
      cell.hidden = weights === null;
    });
    for (const [query, node] of found) {
      node.hidden = !shown.includes(query);
      node.classList.toggle("alone", query === chosen);
    }
    for (const node of objects) node.hidden = !truth;
  }
  return { node: el("div", { class: "picture" }, frame), draw };
}
