const LANES = [
  { name: "global", gaussian: null, means: "softmax over every word" },
  { name: "local-m", gaussian: "none", means: "softmax in the window" },
  { name: "local-p, as printed", gaussian: "outside", means: "softmax in the window, then × Gaussian" },
  { name: "Gaussian inside", gaussian: "inside", means: "softmax of score + log Gaussian" },
];

// A range with its name before it and its reading behind.
function range(name, { min, max, step, value }, reading, change) {
  const slider = el("input", { type: "range", min, max, step, value, "aria-label": name });
  const text = el("span", { class: "reading" });
  const show = () => {
    text.textContent = reading(Number(slider.value));
    slider.setAttribute("aria-valuetext", text.textContent);
  };
  slider.addEventListener("input", () => { show(); change(Number(slider.value)); });
  show();
  const move = (to) => { slider.value = to; show(); };
  return { move, node: el("div", { class: "range" }, el("span", { class: "name" }, name), slider, text) };
}

// One kind of attention: its name, what it does, the sum of its row, and a bar and a number for each word.
function lane({ name, means }, source) {
  const cells = source.map(() => {
    const [bar, value] = [el("span", { class: "bar" }), el("span", { class: "value" })];
    return { bar, value, node: el("div", { class: "cell" }, el("span", { class: "track" }, bar), value) };
  });
  const sum = el("span", { class: "sum" });
  const head = el("div", { class: "head" }, el("b", {}, name), el("span", { class: "means" }, means), sum);
  const row = el("div", { class: "row", role: "img" }, ...cells.map(({ node }) => node));
  function fill(weights, seen) {
    const total = weights.reduce((all, weight) => all + weight, 0);
    cells.forEach(({ bar, value, node }, s) => {
      bar.style.transform = `scaleY(${weights[s].toFixed(4)})`;
      value.textContent = seen[s] ? number(weights[s]) : "·";
      node.classList.toggle("hidden", !seen[s]);
    });
    sum.textContent = `sum ${number(total)}`;
    const read = source.map((word, s) => (seen[s] ? `${word} ${number(weights[s])}` : null)).filter(Boolean);
    row.setAttribute("aria-label", `${name}: ${read.join(", ") || "no word is read"}; the row sums to ${number(total)}`);
    return total;
  }
  return { fill, nodes: [head, row] };
}

function windowView(data) {
  const { source, scores } = data;
  const count = source.length;
  const state = { centre: data.centre, halfWidth: data.halfWidth };
  const everything = attentionMath.softmax(scores);

  // Positions lie in the middle of their columns: position s is at s + 1/2 of `count`.
  const across = (position) => `${(100 * (position + 0.5) / count).toFixed(3)}%`;
  const curve = el("path", { class: "curve" });
  const unused = el("path", { class: "curve unused" });
  const svg = el("svg", {
    class: "plot", viewBox: `-0.5 0 ${count} 1`, preserveAspectRatio: "none", "aria-hidden": "true",
  }, unused, curve);
  const band = el("div", { class: "band" });
  const line = el("div", { class: "centre" }, el("span", {}, "p"));
  const words = source.map((word, s) =>
    el("div", { class: "word" }, el("span", { dir: "auto" }, word), el("small", {}, String(s))));
  const lanes = LANES.map((kind) => lane(kind, source));
  const stage = el("div", { class: "stage", style: `--count: ${count}` }, band, line, svg,
    el("div", { class: "row words" }, ...words), ...lanes.flatMap(({ nodes }) => nodes));
  const readout = el("p", { class: "readout", "aria-live": "polite" });

  const centre = range("Centre", { min: 0, max: count + 1, step: 0.1, value: state.centre },
    (p) => `p = ${p.toFixed(1)}`, (p) => { state.centre = p; draw(); });
  const width = range("Half-width", { min: 1, max: count, step: 1, value: state.halfWidth },
    (d) => `D = ${d}, σ = ${d / 2}`, (d) => { state.halfWidth = d; draw(); });

  // The curve can be pulled along too, by mouse or finger.
  const pull = (event) => {
    const frame = svg.getBoundingClientRect();
    const position = (event.clientX - frame.left) / frame.width * count - 0.5;
    state.centre = Math.round(clamp(position, 0, count + 1) * 10) / 10;
    centre.move(state.centre);
    draw();
  };
  svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); pull(event); });
  svg.addEventListener("pointermove", (event) => svg.hasPointerCapture(event.pointerId) && pull(event));

  function draw() {
    const { centre: p, halfWidth: d } = state;
    const seen = source.map((_, s) => p - d <= s && s <= p + d);
    const inside = source.map((_, s) => s).filter((s) => seen[s]);
    const sums = LANES.map(({ gaussian }, i) => gaussian === null
      ? lanes[i].fill(everything, source.map(() => true))
      : lanes[i].fill(attentionMath.local(scores, p, d, gaussian), seen));
    words.forEach((word, s) => word.classList.toggle("hidden", !seen[s]));
    const [low, high] = [Math.max(p - d, -0.5), Math.min(p + d, count - 0.5)];
    set(curve, { d: trace(p, d, low, high) });
    set(unused, { d: trace(p, d, -0.5, count - 0.5) });
    line.style.left = across(Math.min(p, count - 0.5));
    line.classList.toggle("off", p > count - 0.5);
    band.hidden = inside.length === 0;
    if (inside.length) {
      band.style.left = across(inside[0] - 0.5);
      band.style.right = `calc(100% - ${across(inside.at(-1) + 0.5)})`;
    }
    say(inside, sums);
  }

  // The Gaussian from one position to another, as the points of a path; nothing where the two have crossed.
  function trace(p, d, from, to) {
    if (from >= to) return "";
    const places = Array.from({ length: 81 }, (_, i) => from + (to - from) * i / 80);
    const points = places.map((s) => `${s.toFixed(3)} ${(0.97 - 0.92 * attentionMath.gaussian(s, p, d)).toFixed(4)}`);
    return `M${points.join(" L")}`;
  }

  function say(inside, sums) {
    const { centre: p, halfWidth: d } = state;
    const start = el("b", {}, `p = ${p.toFixed(1)}, D = ${d}.`);
    if (inside.length === 0) {
      readout.replaceChildren(start, " The window lies off the source: every weight is 0, and so is the context.");
      return;
    }
    const [first, last] = [inside[0], inside.at(-1)];
    const span = first === last ? `“${source[first]}” alone` : `“${source[first]}” to “${source[last]}”`;
    readout.replaceChildren(start, ` The window holds ${inside.length} of ${count} words, ${span}. `
      + `Row sums: local-m ${number(sums[1])}, local-p as printed ${number(sums[2])}, Gaussian inside ${number(sums[3])}.`);
  }

  // Where a word is wider than its column, all words stand upright.
  function fit() {
    stage.classList.remove("upright");
    const wide = words.some((word) => word.firstChild.getBoundingClientRect().width > word.clientWidth + 0.5);
    stage.classList.toggle("upright", wide);
  }

  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Weights in a window" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  view.append(el("div", { class: "controls" }, centre.node, width.node), stage, readout);
  new ResizeObserver(fit).observe(view);
  draw();
  return view;
}
