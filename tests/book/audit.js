// Asks axe-core what a reader with a screen reader, a keyboard or weak eyes would stumble over.
async (coloursOnly) => {
  const options = { resultTypes: ["violations"], preload: false };
  const found = [];
  // Colours that are on their way to others are neither.
  document.head.append(Object.assign(document.createElement("style"), { textContent: "* { transition: none !important; }" }));
  if (!coloursOnly) {
    // Thousands of elements that it would only walk through: every letter of a formula, every token of code. The
    // boxes that scroll keep their size.
    for (const code of document.querySelectorAll(".highlight pre, .sig-param")) code.textContent = code.textContent;
    for (const formula of document.querySelectorAll("mjx-container")) {
      const space = document.createElement("span");
      space.style.cssText = `display: inline-block; height: 1em; width: ${formula.scrollWidth - 2}px`;
      formula.replaceChildren(space);
    }
    found.push(await axe.run(document, { ...options, rules: { "color-contrast": { enabled: false } } }));
  }
  // The contrast of the text is measured by probe.js, word by word and inside the views. Here it is that of what
  // stands around the text; the text itself would take most of the time.
  document.querySelector("article")?.replaceChildren();
  found.push(await axe.run(document, { ...options, runOnly: ["color-contrast"] }));
  return found
    .flatMap(({ violations }) => violations)
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) => nodes.slice(0, 5).map((node) => `${id}: ${help}: ${node.html.slice(0, 160)}`));
}
