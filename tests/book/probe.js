// Reads off an open page what its tests ask: what sticks out, what is hard to read, which picture says nothing.
() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  // Any CSS colour as [red, green, blue, alpha]; a canvas understands what getComputedStyle prints.
  const colour = (text) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = text;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3]));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const parent = (element) => element.parentElement ?? (element.getRootNode().host || null);
  const ancestors = (element) => {
    const list = [];
    for (let at = element; at; at = parent(at)) list.push(at);
    return list;
  };

  const groundOf = (element) => {
    let ground = colour(getComputedStyle(document.documentElement).backgroundColor);
    ground = over(colour(getComputedStyle(document.body).backgroundColor), ground[3] ? ground : [255, 255, 255]);
    for (const at of ancestors(element).reverse()) ground = over(colour(getComputedStyle(at).backgroundColor), ground);
    return ground;
  };
  const textNodes = (root) => {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE && node.data.trim()) found.push(node);
      if (node.shadowRoot) found.push(...textNodes(node.shadowRoot));
    }
    return found;
  };
  const hardToRead = [];
  for (const node of textNodes(document.querySelector("article") ?? document.body)) {
    const element = node.parentElement;
    if (!element || element.closest("script, style, mjx-assistive-mml, title, desc, .headerlink, .visually-hidden")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (box.width < 2 || box.height < 2 || style.visibility === "hidden") continue;
    const opacity = ancestors(element).reduce((all, at) => all * Number(getComputedStyle(at).opacity), 1);
    if (opacity < 0.05) continue;
    const ink = colour(element instanceof SVGElement ? style.fill : style.color);
    const ground = groundOf(element);
    const ratio = contrast(over([...ink.slice(0, 3), ink[3] * opacity], ground), ground);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.5 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      hardToRead.push(`${ratio.toFixed(2)} <${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}"> ${node.data.trim().slice(0, 40)}`);
    }
  }

  const width = document.documentElement.clientWidth;
  const scrolls = (element) => ancestors(element).slice(1).some((at) =>
    at !== document.body && at !== document.documentElement && getComputedStyle(at).overflowX !== "visible");
  const sticksOut = [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > width + 1 && e.getClientRects().length && !scrolls(e))
    .map((e) => e.outerHTML.slice(0, 120));

  const images = [...document.querySelectorAll("img")];
  return {
    hardToRead: [...new Set(hardToRead)],
    overflow: document.documentElement.scrollWidth - width,
    sticksOut: sticksOut.slice(0, 5),
    withoutWords: images.filter((i) => !(i.getAttribute("alt") ?? "").trim() && !i.classList.contains("logo__image")).map((i) => i.outerHTML.slice(0, 120)),
    broken: images.filter((i) => i.complete && i.naturalWidth === 0).map((i) => i.outerHTML.slice(0, 120)),
    notOnWhite: [...document.querySelectorAll("article img")].filter((i) => {
      const style = getComputedStyle(i);
      return style.filter !== "none" || style.backgroundColor !== "rgb(255, 255, 255)";
    }).map((i) => i.outerHTML.slice(0, 120)),
    formulas: document.querySelectorAll("article .math").length,
    typeset: document.querySelectorAll("article .math mjx-container mjx-assistive-mml").length,
    wrongFormulas: [...document.querySelectorAll("mjx-merror, [data-mjx-error]")].map((e) => e.textContent.slice(0, 80)),
    asleep: [...document.querySelectorAll("[data-attn-view]:not([data-ready])")].map((e) => e.id),
    theme: document.documentElement.dataset.theme,
  };
}
