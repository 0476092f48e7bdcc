"use strict";
// Charts: whoever points at a point, or moves to it with the arrow keys, reads its value and its interval. Tables: a
// button copies each as CSV. Nothing is loaded, nothing is sent. Without this script the table behind a chart has all.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const REACH = 60; // of the drawing's units: nothing further away from the pointer is shown

  function shape(name, attributes, parent) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  }

  function chart(svg) {
    // each mark: x, y, x and y of the low end, x and y of the high end, lines of words
    const marks = JSON.parse(svg.dataset.marks);
    const plot = svg.closest(".plot");
    if (!marks.length || !plot) return;
    const focus = shape("g", { class: "focus", "aria-hidden": "true", visibility: "hidden" }, svg);
    const halo = shape("line", { class: "halo" }, focus), reach = shape("line", {}, focus);
    const ring = shape("circle", { r: 5 }, focus);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("aria-hidden", "true"); // the words stand in aria-valuetext
    plot.append(tip);
    let now = -1;

    function place() { // of the drawing on the page, and how large one of its units is
      const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      const scale = Math.min(box.width / view.width, box.height / view.height);
      return { scale, left: box.left + (box.width - scale * view.width) / 2, top: box.top + (box.height - scale * view.height) / 2 };
    }

    function show(i) {
      now = i;
      const [x, y, x1, y1, x2, y2, ...lines] = marks[i];
      for (const line of [halo, reach]) {
        for (const [key, value] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(key, value);
      }
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      focus.setAttribute("visibility", "visible");
      tip.replaceChildren(...lines.map((words, k) => {
        const line = document.createElement(k ? "span" : "b");
        line.textContent = words;
        return line;
      }));
      svg.setAttribute("aria-valuenow", i + 1);
      svg.setAttribute("aria-valuetext", `${lines.join("; ")} (${i + 1} of ${marks.length})`);
      tip.hidden = false;
      const at = place(), around = plot.getBoundingClientRect();
      const left = at.left - around.left + plot.scrollLeft + at.scale * x;
      const seen = plot.scrollLeft + plot.clientWidth - tip.offsetWidth - 2;
      const top = at.top - around.top + at.scale * Math.min(y, y1, y2);
      const above = top - tip.offsetHeight - 8;
      tip.style.left = `${Math.max(plot.scrollLeft + 2, Math.min(left - tip.offsetWidth / 2, seen))}px`;
      tip.style.top = `${above > -tip.offsetHeight / 2 ? above : at.top - around.top + at.scale * Math.max(y, y1, y2) + 10}px`;
    }

    function hide() {
      tip.hidden = true;
      focus.setAttribute("visibility", "hidden");
    }

    function nearest(event) {
      const at = place();
      const px = (event.clientX - at.left) / at.scale, py = (event.clientY - at.top) / at.scale;
      let best = -1, least = REACH * REACH;
      marks.forEach(([x, y, x1, y1, x2, y2], i) => {
        const dx = Math.max(Math.min(x1, x2, x) - px, 0, px - Math.max(x1, x2, x));
        const dy = Math.max(Math.min(y1, y2, y) - py, 0, py - Math.max(y1, y2, y));
        const far = dx * dx + dy * dy + 0.01 * ((x - px) ** 2 + (y - py) ** 2); // of intervals that meet, the nearer value
        if (far < least) [best, least] = [i, far];
      });
      return best;
    }

    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "slider"); // the one role that gives arrow keys to us, and reads a value with words
    svg.setAttribute("aria-valuemin", "1");
    svg.setAttribute("aria-valuemax", marks.length);
    svg.setAttribute("aria-valuenow", "1");
    svg.setAttribute("aria-valuetext", `${marks.length} points: arrow keys read them`);
    for (const name of ["pointermove", "pointerdown"]) {
      svg.addEventListener(name, (event) => {
        const i = nearest(event);
        if (i < 0) hide();
        else if (i !== now || tip.hidden) show(i);
      });
    }
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(Math.max(now, 0)); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const last = marks.length - 1;
      const next = {
        ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1,
        PageDown: now + 10, PageUp: now - 10, Home: 0, End: last,
      }[event.key];
      if (event.key === "Escape") hide();
      if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      show(Math.max(0, Math.min(next, last)));
    });
  }

  function field(cell) { // of CSV; a text that a spreadsheet would run as a formula is quoted for it
    const text = cell.dataset.value ?? cell.textContent.trim();
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { // no clipboard on this page: by way of a selection
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  function button(table) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "copy";
    made.textContent = "copy as CSV";
    made.setAttribute("aria-live", "polite");
    made.addEventListener("click", async () => {
      const lines = [...table.rows].map((row) => [...row.cells].map(field).join(","));
      made.textContent = (await copied(`${lines.join("\n")}\n`)) ? "copied" : "could not be copied";
      setTimeout(() => { made.textContent = "copy as CSV"; }, 2000);
    });
    table.closest(".wide").before(made);
  }

  function reachable() { // what has to be moved sideways can be reached by keys
    document.querySelectorAll(".wide").forEach((box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  }

  function setUp(part) {
    part.querySelectorAll("svg[data-marks]:not([tabindex])").forEach(chart);
    part.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", reachable));
    part.querySelectorAll(".numbers table").forEach(button);
    reachable();
  }

  addEventListener("resize", reachable);
  addEventListener("beforeprint", () => document.querySelectorAll(".tip").forEach((tip) => { tip.hidden = true; }));
  document.addEventListener("dpx-added", (event) => setUp(event.target)); // a part of the page that came later
  setUp(document);
})();
