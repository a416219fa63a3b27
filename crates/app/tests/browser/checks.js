// Looks at the report as a reader would; returns what is wrong with it, one line each.
(async (wanted) => {
  const wrong = [];
  const say = (what, element) => {
    const where = element ? " at " + (element.closest("section") || { id: "header" }).id + " " + element.outerHTML.slice(0, 160) : "";
    if (wrong.length < 40) wrong.push(what + where);
  };
  const shown = (e) => e.checkVisibility({ visibilityProperty: true });
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  // Everything, opened.
  for (const details of all("details")) details.open = true;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

  for (const id of wanted) {
    const section = document.getElementById(id);
    if (!section) say("section " + id + " is missing");
    else if (section.offsetHeight < 60 || section.innerText.length < 30) say("section " + id + " is empty");
  }
  if (document.documentElement.scrollWidth > innerWidth)
    say("the page is " + document.documentElement.scrollWidth + " px wide in a window of " + innerWidth);
  if (performance.getEntriesByType("resource").length) say("something was loaded");
  if (/\b(NaN|undefined|Infinity|null|inf)\b/.test(document.body.innerText)) say("a number is none: " + document.body.innerText.match(/.{0,40}\b(NaN|undefined|Infinity|null|inf)\b.{0,40}/)[0]);

  for (const svg of all("svg").filter(shown)) {
    const box = svg.getBoundingClientRect();
    // The box of an inner svg is that of its curves: a level line has no height.
    const inner = svg.parentElement.closest("svg");
    if (box.width < 5 || (box.height < 5 && !inner)) say("a chart of " + box.width + " x " + box.height, svg);
    if (/NaN|undefined|Infinity/.test(svg.outerHTML)) say("a chart with a place that is no number", svg);
    const texts = all("text", svg).map((t) => [t, t.getBoundingClientRect()]);
    texts.forEach(([a, p], i) => {
      if (!svg.closest(".scroll") && (p.left < -0.5 || p.right > innerWidth + 0.5)) say("text outside the window", a);
      for (const [b, q] of texts.slice(i + 1)) {
        const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (across > 0.5 && down > 2 && !a.matches(".failed")) say("texts overlap: " + a.textContent + " and " + b.textContent, a);
      }
    });
  }
  const curves = all("path.curve").filter(shown);
  if (curves.length < 20) say("only " + curves.length + " curves");
  for (const path of curves) if (path.getBoundingClientRect().width < 20) say("a curve without width", path);

  for (const row of all(".row, .strip, .bar").filter(shown)) {
    const boxes = [...row.children].filter(shown).map((c) => [c, c.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => {
      for (const [b, q] of boxes.slice(i + 1)) {
        const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
        const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
        if (across > 1 && down > 1) say("neighbours overlap: " + b.outerHTML.slice(0, 80), a);
      }
      if (a.scrollWidth > a.clientWidth + 1 && a.clientWidth && getComputedStyle(a).overflowX === "visible") say("text sticks out", a);
    });
  }

  // WCAG 2.1 contrast of text against what is behind it.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => {
    const part = [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const color = rgb(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgb(matchMedia("(prefers-color-scheme: dark)").matches ? "black" : "white");
  };
  const poor = new Set();
  for (const e of all("main *, header *, nav *, footer *").filter((e) => shown(e) && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))) {
    const style = getComputedStyle(e);
    const [a, b] = [luminance(rgb(e instanceof SVGElement ? style.fill : style.color)), luminance(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const kind = e.tagName + "." + e.className;
    if (contrast < 4.5 && !poor.has(kind)) {
      poor.add(kind);
      say("contrast " + contrast.toFixed(1), e);
    }
  }

  // Sections are reached without scrolling sideways where there is room; a name that is spoken contains what is read.
  const nav = document.querySelector("nav");
  if (innerWidth >= 1200 && nav.scrollWidth > nav.clientWidth) say("the navigation does not fit", nav);
  for (const e of all("button[aria-label], a[aria-label]").filter(shown)) {
    if (!e.getAttribute("aria-label").includes(e.textContent.trim())) say("its name is not what it shows", e);
  }

  // Tooltips and the switch for the other trials.
  const tip = document.getElementById("tip");
  for (const plot of all("[data-x]").filter(shown)) {
    const box = plot.getBoundingClientRect();
    plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + 10 }));
    if (tip.hidden || !/\d/.test(tip.textContent) || /NaN|undefined/.test(tip.textContent)) say("no tooltip: " + tip.textContent, plot);
    plot.dispatchEvent(new PointerEvent("pointerleave"));
  }
  const faint = all("path.other");
  if (!faint.length || !shown(faint[0])) say("other trials are not shown");
  document.getElementById("others").click();
  if (faint.some(shown)) say("other trials are not hidden by the switch");
  document.getElementById("others").click();
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  if (getComputedStyle(document.body).backgroundColor === before) say("the theme does not change");
  document.getElementById("theme").click();
  return wrong;
})
