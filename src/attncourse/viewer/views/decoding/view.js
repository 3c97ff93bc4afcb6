// A token with what it says below it: a bar and a number for its weight, or nothing.
function piece(token) {
  const note = el("span", { class: "note" });
  const value = el("span", { class: "value" });
  const node = el("li", { class: "piece" }, el("span", { class: "word", dir: "auto" }, visible(token)),
    el("span", { class: "track" }, el("span", { class: "bar" })), value, note);
  function weigh(weight) {
    node.classList.toggle("bare", weight === null);
    node.style.setProperty("--w", (weight ?? 0).toFixed(4));
    value.textContent = weight !== null && weight >= 0.01 ? weight.toFixed(2) : "";
  }
  return { node, weigh, say: (text) => { note.textContent = text; } };
}
const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function decodingView(data) {
  const { source, target, steps } = data;
  const state = { step: 0 };

  const sources = source.map(piece);
  const targets = target.map(piece);
  const bars = el("ol", { class: "candidates", "aria-label": "The most probable next words" });
  const cache = el("ul", { class: "cache" });
  const readout = el("p", { class: "readout", "aria-live": "polite" });

  function draw() {
    const step = steps[state.step];
    sources.forEach(({ weigh }, i) => weigh(step.source[i]));
    targets.forEach(({ node, weigh, say }, i) => {
      const [newest, next] = [i === state.step, i === state.step + 1];
      weigh(i <= state.step && step.target ? step.target[i] : null);
      node.classList.toggle("kept", i < state.step);
      node.classList.toggle("newest", newest);
      node.classList.toggle("next", next);
      node.hidden = i > state.step + 1;
      say(newest ? "q k v" : next ? "chosen" : "k v");
    });
    drawCandidates(step);
    drawCache();
    say(step);
    player.mark(state.step);
  }

  // What is left over after the candidates is a bar too: a short list must not look like all there is.
  function drawCandidates({ candidates }) {
    const rest = 1 - candidates.reduce((sum, [, probability]) => sum + probability, 0);
    const chosen = candidates.findIndex(([word]) => word === target[state.step + 1]);
    const line = (word, probability, kind) => {
      const bar = el("span", { class: "bar" });
      bar.style.transform = `scaleX(${clamp(probability, 0, 1).toFixed(4)})`;
      return el("li", { class: kind }, el("span", { class: "candidate", dir: "auto" }, word),
        el("span", { class: "length" }, bar), el("span", { class: "value" }, probability.toFixed(2)));
    };
    bars.replaceChildren(
      ...candidates.map(([word, probability], i) => line(visible(word), probability, i === chosen ? "chosen" : "")),
      ...(rest > 0.004 ? [line("all other words", rest, "rest")] : []));
  }

  function drawCache() {
    const t = state.step + 1;
    const item = (kind, name, text) => el("li", { class: kind }, el("b", {}, name), ` ${text}`);
    cache.replaceChildren(
      item("newest", "Computed now", `in every layer: query, key and value of “${visible(target[t - 1])}”`
        + (t === 1 ? `; before this step, once, the keys and values of ${many(source.length, "source word")}` : "")),
      item("kept", "Kept in the cache", `keys and values of ${many(t - 1, "target word")} `
        + `and of ${many(source.length, "source word")}`),
      item("", "Saved", `the decoder has computed ${many(t, "word")} so far; without the cache it would be `
        + `${many(t * (t + 1) / 2, "word")}`));
  }

  function say({ candidates, source: weights }) {
    const [chosen, at] = [target[state.step + 1], state.step + 1];
    const probability = candidates.find(([word]) => word === chosen)[1];
    const second = candidates.find(([word]) => word !== chosen);
    const read = largestOf(weights, 0.05, 3)
      .map(([weight, i]) => `“${visible(source[i])}” ${weight.toFixed(2)}`).join(", ");
    readout.replaceChildren(el("b", {}, `Step ${at} of ${steps.length}.`),
      ` “${visible(target[state.step])}” reads ${read || "every source word a little"}; next comes `
      + `“${visible(chosen)}” (${probability.toFixed(2)})`
      + (second ? `, ahead of “${visible(second[0])}” (${second[1].toFixed(2)}).` : "."));
  }

  const go = (step) => { state.step = clamp(step, 0, steps.length - 1); draw(); };
  const player = playerOf(steps.length, () => state.step, go);
  const row = (pieces, label) => el("ul", { class: "row", "aria-label": label }, ...pieces.map(({ node }) => node));
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Decoding, step by step" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  view.append(player.node,
    el("div", { class: "panels" },
      el("div", { class: "panel" },
        el("h4", {}, "Source", el("small", {}, "shaded by how much the new word reads it")), row(sources, "Source"),
        el("h4", {}, "Target so far", el("small", {}, "k v: kept in the cache; q k v: computed now")),
        row(targets, "Target so far")),
      el("div", { class: "panel" },
        el("h4", {}, "Next word", el("small", {}, "probability of each candidate")), bars)),
    cache, readout);
  draw();
  return view;
}

// Back, forward, a slider, and a button that walks from here to the end, or from the start when it is there.
function playerOf(count, now, go) {
  let timer = null;
  const press = (step) => { stop(); go(step); };
  const button = (text, label, by) => el("button", {
    type: "button", "aria-label": label, onclick: () => press(now() + by),
  }, text);
  const [back, forward] = [button("‹ Previous", "Previous step", -1), button("Next ›", "Next step", 1)];
  const slider = el("input", {
    type: "range", min: 1, max: count, step: 1, value: 1, "aria-label": "Step",
    oninput: () => press(Number(slider.value) - 1),
  });
  const reading = el("span", { class: "reading" });
  const play = el("button", {
    type: "button", class: "play",
    onclick: () => (timer !== null ? stop() : walk(now() === count - 1 ? 0 : now() + 1)),
  });

  function mark(step) {
    slider.value = step + 1;
    reading.textContent = `step ${step + 1} of ${count}`;
    slider.setAttribute("aria-valuetext", reading.textContent);
    // Not disabled: a button that has the keyboard's focus would lose it at the end.
    set(back, { "aria-disabled": step === 0 });
    set(forward, { "aria-disabled": step === count - 1 });
  }
  function walk(step) {
    go(step);
    play.textContent = "■ Stop";
    timer = step < count - 1 ? setTimeout(() => walk(step + 1), 1600) : null;
    if (timer === null) stop();
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "▶ Play";
  }
  stop();
  const node = el("div", { class: "steps", role: "group", "aria-label": "Steps" },
    back, forward, play, slider, reading);
  return { node, mark };
}
