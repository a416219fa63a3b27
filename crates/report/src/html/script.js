"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");
  // From page to page of a server; a file has nowhere to keep it.
  const storage = (() => {
    try {
      return location.protocol === "file:" ? null : localStorage;
    } catch {
      return null;
    }
  })();
  const chosen = storage && storage.getItem("theme");
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  document.getElementById("theme").addEventListener("click", () => {
    const next = (root.dataset.theme || system()) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    if (!storage) return;
    if (next === system()) storage.removeItem("theme");
    else storage.setItem("theme", next);
  });
  const again = Number(document.body.dataset.refresh);
  if (again > 0) setTimeout(() => location.reload(), again * 1000);
  const others = document.getElementById("others");
  if (others) others.addEventListener("change", () => root.classList.toggle("no-others", !others.checked));

  // Tooltips: axes invert the positions that the curves are drawn at, so that no figure is stored twice.
  const axis = (text) => {
    const [low, high, kind, unit] = text.split(",");
    const [a, b] = [Number(low), Number(high)];
    return { unit, at: (f) => (kind === "log" ? a * (b / a) ** f : a + (b - a) * f) };
  };
  const digits = (v) => (v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2));
  const scaled = (v, steps, rest) => {
    for (const [factor, unit] of steps) if (v >= factor) return digits(v / factor) + " " + unit;
    return digits(v) + " " + rest;
  };
  const show = {
    "bytes/s": (v) => scaled(v, [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"]], "B/s"),
    "ops/s": (v) => scaled(v, [[1e6, "M IOPS"], [1e3, "k IOPS"]], "IOPS"),
    ns: (v) => scaled(v, [[1e9, "s"], [1e6, "ms"], [1e3, "us"]], "ns"),
    s: (v) => digits(v) + " s",
    share: (v) => (100 * v).toFixed(1) + "%",
    date: (v) => new Date(1000 * v).toISOString().slice(0, 16).replace("T", " ") + " UTC",
    nines: (v) => "p" + Number((100 * (1 - 10 ** -v)).toFixed(3)),
  };
  const points = (path) => {
    const numbers = path.getAttribute("d").match(/-?[\d.]+/g) || [];
    const list = [];
    for (let i = 0; i + 1 < numbers.length; i += 2) list.push([numbers[i] / 1000, 1 - numbers[i + 1] / 1000]);
    return path.classList.contains("filled") ? list.slice(0, -2) : list;
  };
  const tip = document.getElementById("tip");
  const hide = (plot) => {
    tip.hidden = true;
    const hair = plot.querySelector(".crosshair");
    if (hair) hair.style.visibility = "hidden";
  };
  for (const plot of document.querySelectorAll("[data-x]")) {
    const x = axis(plot.dataset.x);
    const y = axis(plot.dataset.y);
    plot.addEventListener("pointerleave", () => hide(plot));
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const f = (event.clientX - box.left) / box.width;
      if (f < 0 || f > 1) return hide(plot);
      const lines = [];
      let at = f;
      for (const path of plot.querySelectorAll("path:not(.other)")) {
        let best = null;
        for (const p of points(path)) if (!best || Math.abs(p[0] - f) < Math.abs(best[0] - f)) best = p;
        if (!best) continue;
        at = best[0];
        lines.push(path.dataset.name + ": " + show[y.unit](y.at(best[1])));
      }
      if (!lines.length) return hide(plot);
      const hair = plot.querySelector(".crosshair");
      if (hair) {
        hair.setAttribute("x1", 100 * at + "%");
        hair.setAttribute("x2", 100 * at + "%");
        hair.style.visibility = "visible";
      }
      tip.textContent = [show[x.unit](x.at(at)), ...lines].join("\n");
      tip.hidden = false;
      const width = tip.offsetWidth;
      tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4)) + "px";
      tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 12) + "px";
    });
  }

  // Tables of many designs: a click on a column's head sorts by it, another the other way round.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = table.tHead.rows[0].cells;
    [...heads].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") === "descending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const of = (row) => (row.cells[column] ? row.cells[column].dataset.v || row.cells[column].textContent : "");
        const rows = [...body.rows].filter((row) => !row.classList.contains("drawn"));
        for (const row of [...body.rows]) if (row.classList.contains("drawn")) row.remove();
        const order = (a, b) => {
          const [x, y] = [of(a), of(b)];
          const numbers = [x, y].every((v) => v !== "" && Number.isFinite(Number(v)));
          return numbers ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
        };
        rows.sort((a, b) => (up ? order(a, b) : order(b, a)));
        body.append(...rows);
      });
    });
  }

  // The series of a result, drawn when it is asked for.
  const kept = document.getElementById("series");
  const series = kept ? JSON.parse(kept.textContent) : [];
  for (const button of document.querySelectorAll("button.series")) {
    button.addEventListener("click", () => {
      const row = button.closest("tr");
      if (row.nextElementSibling && row.nextElementSibling.classList.contains("drawn")) {
        return row.nextElementSibling.remove();
      }
      const found = series.find((s) => s[0] === Number(button.dataset.d) && s[1] === Number(button.dataset.w));
      const cell = document.createElement("td");
      cell.colSpan = row.cells.length;
      if (found) {
        const [, , seconds, rates] = found;
        const most = Math.max(...rates, 1);
        const at = (rate, index) => (600 * (index + 0.5)) / rates.length + "," + (59 - (57 * rate) / most);
        cell.innerHTML =
          '<svg viewBox="0 0 600 60" height="60" width="100%" preserveAspectRatio="none" role="img"><polyline points="' +
          rates.map(at).join(" ") +
          '" fill="none" stroke="currentColor" vector-effect="non-scaling-stroke"/></svg>';
        cell.append("0 to " + digits(seconds) + " s, 0 to " + show["bytes/s"](most * 1e3) + ": the trial in the middle");
      } else {
        cell.append("no series was recorded");
      }
      const drawn = document.createElement("tr");
      drawn.className = "drawn";
      drawn.append(cell);
      row.after(drawn);
    });
  }
})();
