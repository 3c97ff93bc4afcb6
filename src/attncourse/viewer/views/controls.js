// What the views are built from: elements, words and numbers, sliders and choices, and the start on the page.

function el(tag, properties = {}, ...children) {
  const svg = ["svg", "path", "line", "circle", "rect", "g", "text", "mask"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// Two decimals with a true minus sign, and never "−0.00".
const number = (x) => (Math.abs(x) < 0.005 ? 0 : x).toFixed(2).replace("-", "−");

// A token as it can be seen: blanks and line ends have a sign.
const visible = (token) => token.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";

// A word that occurs twice is named with its place, so that hearing it is enough to find it.
const named = (words, i) => `“${visible(words[i])}”`
  + (words.indexOf(words[i]) === words.lastIndexOf(words[i]) ? "" : ` (${i + 1})`);

// The largest of some weights, as [weight, place] from the largest down: those worth saying, and not too many.
const largestOf = (weights, least, most) => weights.map((weight, i) => [weight, i])
  .filter(([weight]) => weight >= least).sort((a, b) => b[0] - a[0]).slice(0, most);

// Where a key leads in a grid of so many rows and columns, as [row, column]; nowhere for any other key.
function stepInGrid(key, [row, column], [rows, columns]) {
  const to = {
    ArrowRight: [row, column + 1], ArrowLeft: [row, column - 1], ArrowDown: [row + 1, column],
    ArrowUp: [row - 1, column], Home: [row, 0], End: [row, columns - 1],
  }[key];
  return to && [clamp(to[0], 0, rows - 1), clamp(to[1], 0, columns - 1)];
}

// The slider moves in powers of two, from 1/8 to 8, so that its middle is T = 1. The reading leads back there.
function temperatureSlider(change) {
  const slider = el("input", {
    type: "range", min: -3, max: 3, step: 0.1, value: 0, "aria-label": "Temperature",
  });
  const reading = el("button", { type: "button", class: "reading" });
  const update = () => {
    const temperature = 2 ** Number(slider.value);
    const text = `T = ${temperature.toFixed(2)}`;
    slider.setAttribute("aria-valuetext", text);
    reading.replaceChildren(text + (temperature === 1 ? "" : " ↺"));
    reading.title = temperature === 1 ? "" : "Back to T = 1";
    reading.disabled = temperature === 1;
    return temperature;
  };
  slider.addEventListener("input", () => change(update()));
  reading.addEventListener("click", () => { slider.value = 0; change(update()); slider.focus(); });
  update();
  return el("div", { class: "temperature" }, el("span", { class: "name" }, "Temperature"),
    el("span", { class: "end" }, "sharp"), slider, el("span", { class: "end" }, "flat"), reading);
}

// A row of choices of which one holds: radio buttons, so the keyboard works by itself.
let groups = 0;
function choice(name, options, chosen, change) {
  const group = `choice-${++groups}`;
  const buttons = options.map((option, i) => {
    const input = el("input", { type: "radio", name: group, onchange: () => change(i) });
    input.checked = i === chosen;
    return el("label", {}, input, el("span", {}, option));
  });
  return el("fieldset", { class: "choice" }, el("legend", {}, name), el("div", {}, ...buttons));
}

// Draws every view of this kind that is not drawn yet. A page may run this script once for each view.
function start(kind, styles, build) {
  for (const host of document.querySelectorAll(`[data-attn-view="${kind}"]:not([data-ready])`)) {
    host.setAttribute("data-ready", "");
    const data = JSON.parse(host.querySelector('script[type="application/json"]').textContent);
    const root = host.attachShadow({ mode: "open" });
    root.append(el("style", {}, styles), build(data));
  }
}
