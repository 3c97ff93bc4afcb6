// Unpacks MathJax (3.2, Apache 2.0 licence) and starts it. The build puts the packed scripts between the quotes.
(async () => {
  const folder = document.currentScript.src.replace(/\/[^/]*$/, "");
  const bytes = Uint8Array.from(atob("@PACKED@"), (letter) => letter.charCodeAt(0));
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const scripts = JSON.parse(await new Response(unzipped).text());

  const run = (script) => {
    const element = document.createElement("script");
    element.text = script;
    document.head.appendChild(element).remove();
  };
  const fetchScript = (address) => new Promise((resolve, reject) => {
    const element = document.createElement("script");
    Object.assign(element, { src: address, onload: resolve, onerror: reject });
    document.head.appendChild(element);
  });

  const given = window.MathJax || {};
  window.MathJax = {
    ...given,
    loader: {
      load: ["core", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml"],
      paths: { mathjax: folder },
      require: (address) => {
        const name = address.slice(folder.length + 1);
        return name in scripts ? run(scripts[name]) : fetchScript(address);
      },
    },
    chtml: { fontURL: folder + "/output/chtml/fonts/woff-v2" },
  };
  run(scripts["startup.js"]);

  // A formula inside a line that is wider than its column gets a line of its own, where it can scroll.
  const fit = () => {
    for (const formula of document.querySelectorAll("span.math")) {
      formula.classList.remove("wide");
      const column = formula.parentElement.closest("p, li, td, dd, div");
      formula.classList.toggle("wide", formula.getBoundingClientRect().width > column.clientWidth);
    }
  };
  // What scrolls can be reached and moved by keyboard.
  const reach = () => {
    for (const box of document.querySelectorAll("mjx-container[display], span.math.wide")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  await window.MathJax.startup.promise;
  for (const settle of [fit, reach]) {
    settle();
    addEventListener("resize", settle);
  }
})();
