function documentView(data) {
  const { words, wordWeights, sentenceWeights, overAll, deciding, decidingWords, label, prediction } = data;
  const heaviest = sentenceWeights.indexOf(Math.max(...sentenceWeights));
  // Chosen is a sentence (word null) or a word of it; `shown` is what the mouse is over, and wins while it is.
  const state = { product: overAll, truth: false, pinned: { sentence: heaviest, word: null }, shown: null };

  // What a word counts for: within its sentence, or in the whole document.
  const weightOf = (s, i) => wordWeights[s][i] * (state.product ? sentenceWeights[s] : 1);

  // Everything that can be chosen, in the order of reading: each sentence's bar, then its words.
  const items = [];
  function item(kind, place, ...children) {
    const at = items.length;
    const node = el("button", {
      type: "button", class: kind, tabindex: -1, "aria-pressed": "false",
      onclick: () => pin(place), onfocus: () => pin(place), onkeydown: (event) => move(event, at),
      onpointerenter: (event) => { if (event.pointerType === "mouse") show(place); },
      onpointerleave: (event) => { if (event.pointerType === "mouse") show(null); },
    }, ...children);
    items.push({ node, place });
    return node;
  }

  const sentences = words.map((sentence, s) => {
    const head = item("head", { sentence: s, word: null },
      el("span", { class: "visually-hidden" }, `Sentence ${s + 1}`),
      el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "bar" })),
      el("span", { class: "value", "aria-hidden": "true" }, number(sentenceWeights[s])));
    head.style.setProperty("--w", sentenceWeights[s].toFixed(4));
    const chips = sentence.map((word, i) => item("chip", { sentence: s, word: i },
      el("span", { class: "word", dir: "auto" }, word), el("span", { class: "value", "aria-hidden": "true" })));
    const node = el("div", { class: "sentence", role: "group", "aria-label": `Sentence ${s + 1}` }, head,
      el("div", { class: "words" }, ...chips));
    return { node, chips };
  });

  // The whole document is one stop of the Tab key; the arrow keys walk about in it.
  function move(event, at) {
    const { sentence, word } = items[at].place;
    const find = (s, w) => items.findIndex(({ place }) => place.sentence === s && place.word === w);
    const beside = (s) => find(s, word === null ? null : Math.min(word, words[s].length - 1));
    const to = {
      ArrowRight: at + 1, ArrowLeft: at - 1,
      ArrowDown: sentence + 1 < words.length ? beside(sentence + 1) : at,
      ArrowUp: sentence > 0 ? beside(sentence - 1) : at,
      Home: find(sentence, null), End: find(sentence, words[sentence].length - 1),
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    items[clamp(to, 0, items.length - 1)].node.focus();
  }
  const same = (a, b) => a.sentence === b.sentence && a.word === b.word;
  const pin = (place) => { state.pinned = place; state.shown = null; draw(); };
  const show = (place) => { state.shown = place; draw(); };

  function draw() {
    const chosen = state.shown ?? state.pinned;
    for (const { node, place } of items) {
      const pinned = same(place, state.pinned);
      set(node, { "aria-pressed": pinned, tabindex: pinned ? 0 : -1 });
      node.classList.toggle("shown", same(place, chosen));
    }
    sentences.forEach(({ node, chips }, s) => {
      node.classList.toggle("deciding", state.truth && s === deciding);
      chips.forEach((chip, i) => {
        const weight = weightOf(s, i);
        chip.style.setProperty("--w", weight.toFixed(4));
        chip.querySelector(".value").textContent = weight >= 0.1 ? number(weight) : "";
        chip.classList.toggle("deciding", state.truth && s === deciding && decidingWords.includes(i));
      });
    });
    said.replaceChildren(...sayTruth());
    say(chosen);
  }

  function say({ sentence: s, word: i }) {
    const weight = number(sentenceWeights[s]);
    if (i === null) {
      const list = largestOf(words[s].map((_, k) => weightOf(s, k)), 0.005, 4)
        .map(([weight, k]) => `${named(words[s], k)} ${number(weight)}`).join(", ");
      readout.replaceChildren(el("b", {}, `Sentence ${s + 1}`), ` weighs ${weight}; its words: `
        + (list || "next to nothing"));
      return;
    }
    readout.replaceChildren(el("b", {}, named(words[s], i)), ` weighs ${number(wordWeights[s][i])} in sentence ${s + 1}, `
      + `which weighs ${weight}: ${number(wordWeights[s][i] * sentenceWeights[s])} of the document`);
  }

  function sayTruth() {
    const says = prediction === null ? [] : ["The model says ", el("b", {}, prediction), ". "];
    if (!state.truth) return says;
    const truth = label === null ? [] : ["In truth: ", el("b", {}, label), ". "];
    if (deciding === null) return [...says, ...truth];
    const by = decidingWords.length ? ` by ${decidingWords.map((i) => named(words[deciding], i)).join(", ")}` : "";
    return [...says, ...truth, `Sentence ${deciding + 1} decides${by} (dashed).`];
  }

  const said = el("p", { class: "said", "aria-live": "polite" });
  const readout = el("p", { class: "readout", "aria-live": "polite" });
  const controls = el("div", { class: "controls" },
    choice("Shade words by", ["word weight", "word × sentence"], Number(overAll),
      (i) => { state.product = i === 1; draw(); }));
  if (deciding !== null || label !== null) {
    const box = el("input", { type: "checkbox", onchange: () => { state.truth = box.checked; draw(); } });
    controls.append(el("label", { class: "truth" }, box, el("span", {}, "show the truth")));
  }
  const view = el("div", { class: "view", role: "group", "aria-label": data.title ?? "Weights of sentences and words" });
  if (data.title) view.append(el("p", { class: "title" }, data.title));
  view.append(controls, said,
    el("p", { class: "caption" }, "Choose a sentence by its bar, or a word, to read its weight"),
    el("div", { class: "document" }, ...sentences.map(({ node }) => node)), readout);
  draw();
  return view;
}
