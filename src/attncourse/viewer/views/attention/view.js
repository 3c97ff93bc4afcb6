function attentionView(data) {
  const { queries, keys } = data;
  const state = { head: 0, temperature: 1, pinned: { side: "queries", index: 0 }, shown: null };
  const tokens = { queries, keys };
  const other = { queries: "keys", keys: "queries" };

  // Weights (queries, keys) of the chosen head at the chosen temperature.
  function weightsNow() {
    const { head, temperature } = state;
    if (data.scores === null || temperature === 1) {
      return data.weights[head].map((row) => attentionMath.atTemperature(row, temperature));
    }
    return data.scores[head].map((row) => attentionMath.softmax(row.map((s) => s ?? -Infinity), temperature));
  }

  // One button a token: the word, a bar and a number. The arrow keys move, so a whole row is one tab stop.
  const chips = {};
  function row(side, caption) {
    chips[side] = tokens[side].map((token, index) => el("button", {
      type: "button", class: "chip", tabindex: index === 0 ? 0 : -1, "aria-pressed": "false",
      onclick: () => pin(side, index),
      onfocus: () => pin(side, index),
      onkeydown: (event) => move(event, side, index),
      onpointerenter: (event) => { if (event.pointerType === "mouse") show({ side, index }); },
      onpointerleave: (event) => { if (event.pointerType === "mouse") show(null); },
    }, el("span", { class: "word", dir: "auto" }, visible(token)),
      el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "bar" })),
      el("span", { class: "value", "aria-hidden": "true" })));
    return el("div", { class: `row ${side}`, role: "group", "aria-label": caption }, ...chips[side]);
  }

  function move(event, side, index) {
    const last = tokens[side].length - 1;
    const across = Math.round(index * (tokens[other[side]].length - 1) / Math.max(last, 1));
    const target = {
      ArrowRight: [side, Math.min(index + 1, last)], ArrowLeft: [side, Math.max(index - 1, 0)],
      Home: [side, 0], End: [side, last],
      ArrowDown: side === "queries" ? ["keys", across] : null,
      ArrowUp: side === "keys" ? ["queries", across] : null,
    }[event.key];
    if (!target) return;
    event.preventDefault();
    chips[target[0]][target[1]].focus();
  }

  function pin(side, index) {
    state.pinned = { side, index };
    chips[side].forEach((chip, i) => chip.setAttribute("tabindex", i === index ? 0 : -1));
    state.shown = null;
    draw();
  }
  function show(place) { state.shown = place; draw(); }

  const svg = el("svg", { "aria-hidden": "true" });
  const stage = el("div", { class: "stage" }, svg,
    el("p", { class: "caption" }, "Queries: choose one to see what it reads"), row("queries", "Queries"),
    row("keys", "Keys"), el("p", { class: "caption" }, "Keys: choose one to see which queries read it"));
  const readout = el("p", { class: "readout", "aria-live": "polite" });

  function draw() {
    const { side, index } = state.shown ?? state.pinned;
    const weights = weightsNow();
    const read = side === "queries" ? weights[index] : weights.map((weightsOfQuery) => weightsOfQuery[index]);
    for (const [name, row] of Object.entries(chips)) {
      row.forEach((chip, i) => {
        const weight = name === side ? 0 : read[i];
        chip.style.setProperty("--w", weight.toFixed(4));
        chip.querySelector(".value").textContent = weight >= 0.01 ? weight.toFixed(2) : "";
        chip.classList.toggle("shown", name === side && i === index);
        chip.setAttribute("aria-pressed", String(name === state.pinned.side && i === state.pinned.index));
      });
    }
    drawLines(side, index, read);
    say(side, index, read);
  }

  // The largest weights as lines; where words stand in several rows, only the really large ones. The lines run
  // behind the words: a mask cuts the words out, whatever the page's background is.
  function drawLines(side, index, read) {
    const frame = stage.getBoundingClientRect();
    if (frame.width === 0) return;
    const box = (name, i) => {
      // With its bar and number where it has them, else the word alone.
      const chip = chips[name][i];
      const part = name !== side && read[i] >= 0.01 ? chip : chip.querySelector(".word");
      const { left, top, width, height } = part.getBoundingClientRect();
      return { x: left - frame.left, y: top - frame.top, width, height };
    };
    const whole = { x: 0, y: 0, width: frame.width, height: frame.height };
    const words = Object.keys(chips).flatMap((name) => chips[name].map((_, i) => box(name, i)));
    const holes = words.map((word) => el("rect", { ...word, rx: 6, fill: "black" }));
    const mask = el("mask", { id: "words", maskUnits: "userSpaceOnUse", ...whole },
      el("rect", { ...whole, fill: "white" }), ...holes);
    const rows = Object.values(chips).map((row) => row.at(-1).offsetTop > row[0].offsetTop);
    const least = rows.includes(true) ? 0.1 : 0.02;
    const lines = largestOf(read, least, 6).map(([, i]) => {
      const [query, key] = side === "queries" ? [index, i] : [i, index];
      const [from, to] = [box("queries", query), box("keys", key)];
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y];
      const bend = Math.max(18, (y2 - y1) / 2);
      return el("path", {
        d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`,
        "stroke-width": (1 + 5 * read[i]).toFixed(2), "stroke-opacity": (0.35 + 0.55 * read[i]).toFixed(2),
      });
    });
    svg.replaceChildren(mask, el("g", { mask: "url(#words)" }, ...lines));
  }

  function say(side, index, read) {
    const list = largestOf(read, 0.005, 4)
      .map(([weight, i]) => `${named(tokens[other[side]], i)} ${weight.toFixed(2)}`).join(", ");
    const subject = el("b", {}, named(tokens[side], index));
    const total = read.reduce((sum, weight) => sum + weight, 0);
    if (side === "queries" && data.partial && total > 0) {
      readout.replaceChildren(subject, ` reads ${list || "next to nothing"}; the row sums to ${total.toFixed(2)}`);
    } else if (side === "queries") {
      readout.replaceChildren(subject, list ? ` reads ${list}` : " reads nothing: every key is hidden from it");
    } else {
      readout.replaceChildren(subject, list ? ` is read by ${list}` : " is read by no query");
    }
  }

  const controls = el("div", { class: "controls" });
  if (data.heads.length > 1) {
    controls.append(choice("Head", data.heads, 0, (head) => { state.head = head; draw(); }));
  }
  if (data.partial) {
    controls.append(el("span", { class: "name" }, "Here a row may sum to less than 1."));
  } else {
    controls.append(temperatureSlider((temperature) => { state.temperature = temperature; draw(); }));
  }
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Attention weights" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  view.append(controls, stage, readout);
  // The lines follow the words when the page is resized, or when a hidden view is shown at last.
  new ResizeObserver(draw).observe(stage);
  return view;
}
