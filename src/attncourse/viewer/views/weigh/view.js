const SIDE = 240;  // a plane is drawn in a square of this many units
const STEPS = ["Score", "Normalise", "Weigh"];
const FORMULAS = {
  "dot": "q · k", "scaled dot": "q · k / √2", "cosine": "q · k / |q| |k|", "distance": "−½ |q − k|²",
};
const point = (vector) => `(${vector.map(number).join(", ")})`;

// A square with two axes through its middle; `at` turns a vector into a place in it.
function plane(label, vectors) {
  const reach = Math.max(1, ...vectors.flat().map(Math.abs)) * 1.3;
  const at = ([x, y]) => [SIDE / 2 * (1 + x / reach), SIDE / 2 * (1 - y / reach)];
  const svg = el("svg", { class: "plane", viewBox: `0 0 ${SIDE} ${SIDE}`, role: "group", "aria-label": label },
    el("rect", { class: "frame", x: 0.5, y: 0.5, width: SIDE - 1, height: SIDE - 1, rx: 8 }),
    el("line", { class: "axis", x1: 0, x2: SIDE, y1: SIDE / 2, y2: SIDE / 2 }),
    el("line", { class: "axis", y1: 0, y2: SIDE, x1: SIDE / 2, x2: SIDE / 2 }));
  return { svg, at, reach };
}

// An arrow from the origin, with a name beyond its tip that never leaves the frame.
function arrow(kind, label, { svg, at }) {
  const line = el("line");
  const head = el("path", { d: "M0 0 L-10 4.6 L-10 -4.6 Z" });
  const group = el("g", { class: `arrow ${kind}` }, line, head);
  const text = el("text", { class: kind }, label);
  svg.append(group, text);

  function place(vector) {
    const [[x0, y0], [x, y]] = [at([0, 0]), at(vector)];
    const length = Math.hypot(x - x0, y - y0);
    const [ux, uy] = length < 0.5 ? [0, 0] : [(x - x0) / length, (y - y0) / length];
    set(line, { x1: x0, y1: y0, x2: x - 5 * ux, y2: y - 5 * uy });
    set(head, { transform: `translate(${x} ${y}) rotate(${Math.atan2(uy, ux) * 180 / Math.PI})` });
    head.style.display = length < 0.5 ? "none" : "";
    const size = parseFloat(getComputedStyle(text).fontSize) || 15;
    const half = 0.3 * size * label.length;
    const clear = kind === "query" ? 16 : 5;
    const wanted = x + ux * (clear + half);
    const held = clamp(wanted, half + 4, SIDE - half - 4);
    // A name that was pushed back over its tip moves aside.
    const aside = Math.abs(held - wanted) > 2 ? (uy > 0 ? 0.8 : -0.8) * size : 0;
    set(text, { x: held, y: clamp(y + uy * (clear + 0.6 * size) + aside, 0.7 * size, SIDE - 0.7 * size) });
  }
  return { group, line, text, place };
}

// One key's line in the table: a box that shows or hides it, its score, its weight.
function keyRow(label, change) {
  const box = el("input", {
    type: "checkbox", "aria-label": `${label} is visible`, onchange: () => change(box.checked),
  });
  box.checked = true;
  const name = el("label", { class: "key", title: "Untick to hide this key" }, box, el("span", {}, label));
  const cell = (kind) => {
    const bar = el("div", { class: "bar" });
    const text = el("span");
    return { bar, text, node: el("div", { class: `cell ${kind}` }, el("div", { class: "track" }, bar), text) };
  };
  const [score, weight] = [cell("score"), cell("weight")];
  const fill = (scoreNow, share, weightNow, visible) => {
    name.classList.toggle("hidden", !visible);
    score.node.classList.toggle("hidden", !visible);
    score.bar.style.transform = `scaleX(${clamp(share, -1, 1).toFixed(4)})`;
    score.text.textContent = visible ? number(scoreNow) : "hidden";
    weight.bar.style.transform = `scaleX(${weightNow.toFixed(4)})`;
    weight.text.textContent = number(weightNow);
  };
  return { nodes: [name, score.node, weight.node], fill };
}

// The circle to drag. Mouse, touch and pen are all pointers; the arrow keys move it too.
function queryHandle({ svg, at, reach }, move) {
  const handle = el("circle", {
    class: "handle", r: 24, tabindex: 0, role: "slider",
    "aria-label": "Query: move it with the arrow keys, faster with Shift",
    "aria-valuemin": -reach.toFixed(2), "aria-valuemax": reach.toFixed(2),
  });
  const ring = el("circle", { class: "ring", r: 10 });
  svg.append(handle, ring);
  let now = [0, 0];
  const to = (x, y) => move([x, y].map((v) => Math.round(clamp(v, -reach, reach) * 100) / 100));
  const follow = (event) => {
    const frame = svg.getBoundingClientRect();
    const [across, down] = [(event.clientX - frame.left) / frame.width, (event.clientY - frame.top) / frame.height];
    to((2 * across - 1) * reach, (1 - 2 * down) * reach);
  };
  handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
  // Without this a finger on the handle scrolls the page: not every browser heeds touch-action inside an SVG.
  handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && follow(event));
  svg.addEventListener("click", (event) => event.target !== handle && follow(event));
  handle.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by) return;
    event.preventDefault();
    const stride = reach / (event.shiftKey ? 8 : 40);
    to(now[0] + by[0] * stride, now[1] + by[1] * stride);
  });
  return (query) => {
    now = query;
    const [cx, cy] = at(query);
    for (const circle of [handle, ring]) set(circle, { cx, cy });
    set(handle, { "aria-valuenow": query[0], "aria-valuetext": point(query) });
  };
}

// A full score bar is what a query at the plane's edge can reach: the bars keep their scale while it moves.
function largestScores(keys, reach) {
  const angles = Array.from({ length: 32 }, (_, i) => i * Math.PI / 16);
  const edge = angles.map((angle) => [reach * Math.cos(angle), reach * Math.sin(angle)]);
  const largest = (score) =>
    Math.max(1e-9, ...keys.flatMap((key) => edge.map((query) => Math.abs(score(query, key)))));
  return Object.fromEntries(Object.entries(attentionMath.scores).map(([kind, score]) => [kind, largest(score)]));
}

function weighView(data) {
  const { labels, keys, values } = data;
  const state = {
    query: data.query, kind: data.score, temperature: 1, visible: labels.map(() => true), step: 3,
  };
  const left = plane("The query and the keys", [...keys, data.query]);
  const keyArrows = labels.map((label) => arrow("key", label, left));
  const queryArrow = arrow("query", "q", left);
  const placeHandle = queryHandle(left, (query) => { state.query = query; draw(); });

  const right = plane("The values and the context", values);
  const valueArrows = labels.map((label) => arrow("value", label, right));
  const chain = el("path", { class: "chain" });
  right.svg.append(chain);
  const contextArrow = arrow("context", "c", right);

  const rows = labels.map((label, i) => keyRow(label, (visible) => { state.visible[i] = visible; draw(); }));
  const largest = largestScores(keys, left.reach);
  const formula = el("small");
  const readout = el("p", { class: "readout", "aria-live": "polite" });

  function draw() {
    const scores = keys.map((key) => attentionMath.scores[state.kind](state.query, key));
    const weights = attentionMath.softmax(scores, state.temperature, state.visible);
    const context = attentionMath.weigh(weights, values);
    labels.forEach((_, i) => {
      rows[i].fill(scores[i], scores[i] / largest[state.kind], weights[i], state.visible[i]);
      keyArrows[i].place(keys[i]);
      valueArrows[i].place(values[i]);
      for (const { group } of [keyArrows[i], valueArrows[i]]) group.classList.toggle("hidden", !state.visible[i]);
      const width = (1.2 + 3.2 * weights[i]).toFixed(2);
      keyArrows[i].line.style.strokeWidth = state.step >= 2 ? width : "";
      valueArrows[i].line.style.strokeWidth = state.step === 3 ? width : "";
    });
    queryArrow.place(state.query);
    placeHandle(state.query);
    contextArrow.place(context);
    // weight * value, one after the other, tip to tail: they end in the context.
    const ends = labels.map((_, i) => attentionMath.weigh(weights.slice(0, i + 1), values));
    const places = [[0, 0], ...ends].map((end) => right.at(end).map((x) => x.toFixed(2)).join(" "));
    set(chain, { d: `M${places.join(" L")}` });
    formula.textContent = `score = ${FORMULAS[state.kind]},  weight = softmax(score / T)`;
    say(scores, weights, context);
  }

  function say(scores, weights, context) {
    const seen = labels.map((_, i) => i).filter((i) => state.visible[i]);
    const list = (numbers) => seen.map((i) => `${labels[i]} ${number(numbers[i])}`).join(", ") || "no key is visible";
    const sum = seen.map((i) => `${number(weights[i])} · ${labels[i]}`).join(" + ") || "nothing";
    const text = [
      `The query ${point(state.query)} is compared with every key: ${list(scores)}.`,
      `The softmax turns the scores into weights: ${list(weights)}.`,
      `The context is the weighted sum of the values: c = ${sum} = ${point(context)}.`,
    ][state.step - 1];
    readout.replaceChildren(el("b", {}, `${state.step}. ${STEPS[state.step - 1]}.`), ` ${text}`);
  }

  const view = el("div", { class: "view", role: "group", "aria-label": "Score, normalise, weigh" },
    stepper((step) => { state.step = step; view.dataset.step = step; draw(); }),
    el("div", { class: "controls" },
      choice("Score", Object.keys(FORMULAS), Object.keys(FORMULAS).indexOf(state.kind),
        (i) => { state.kind = Object.keys(FORMULAS)[i]; draw(); }),
      temperatureSlider((temperature) => { state.temperature = temperature; draw(); })),
    el("div", { class: "panels" },
      el("div", { class: "panel" },
        el("h4", {}, "Query and keys", el("small", {}, "drag the query q")), left.svg),
      el("div", { class: "panel bars" },
        el("h4", {}, "Scores and weights", formula),
        el("div", { class: "grid" },
          ...["key", "score", "weight"].map((name) => el("span", { class: "caption" }, name)),
          ...rows.flatMap((row) => row.nodes))),
      el("div", { class: "panel values" },
        el("h4", {}, "Values and context", el("small", {}, "c = Σ weight · value")), right.svg)),
    readout);
  view.dataset.step = state.step;
  // The names are placed by the size they are drawn at, which is known, and changes, with the page.
  new ResizeObserver(draw).observe(view);
  draw();
  return view;
}

// Three buttons, one a step, and one that walks through them. It opens at the last step, with all there is.
function stepper(change) {
  let timer = null;
  const press = (step) => { stop(); go(step); };
  const buttons = STEPS.map((name, i) =>
    el("button", { type: "button", onclick: () => press(i + 1) }, `${i + 1} ${name}`));
  const play = el("button", { type: "button", class: "play", onclick: () => (timer === null ? walk(1) : stop()) });
  const bar = el("div", { class: "steps", role: "group", "aria-label": "Steps" }, ...buttons, play);

  const mark = (step) => buttons.forEach((button, i) => set(button, { "aria-pressed": i + 1 === step }));
  function go(step) {
    mark(step);
    change(step);
  }
  function walk(step) {
    go(step);
    play.textContent = "■ Stop";
    timer = setTimeout(() => (step < 3 ? walk(step + 1) : stop()), 1600);
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "▶ Play";
  }
  mark(3);
  stop();
  return bar;
}
