"use strict";
// Pages of the console: cards that come when somebody gets to them, forecasts while an epsilon is chosen, jobs that end,
// files that are read here and sent as text. Without it each of these is a link or a button.
(() => {
  async function part(address, options = {}) { // of a page of ours, as nodes: scripts in it would not run
    const answer = await fetch(address, { credentials: "same-origin", ...options });
    if (answer.redirected) location.reload(); // the session has ended
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    return [...parsed.body.childNodes];
  }

  function added(place, nodes) {
    place.replaceChildren(...nodes);
    place.dispatchEvent(new CustomEvent("dpx-added", { bubbles: true }));
  }

  const seen = new IntersectionObserver((entries) => entries.forEach(async ({ target, isIntersecting }) => {
    if (!isIntersecting) return;
    seen.unobserve(target);
    const pick = target.querySelector(".pick");
    added(target, [...await part(target.dataset.card), ...(pick ? [pick] : [])]);
  }), { rootMargin: "300px" });
  document.querySelectorAll("[data-card]").forEach((place) => seen.observe(place));

  document.querySelectorAll("form[data-forecast]").forEach((form) => {
    const epsilon = form.elements.epsilon, slider = form.querySelector(".slider"), shown = form.querySelector(".forecast");
    const low = Math.log(slider.dataset.low), high = Math.log(Math.max(slider.dataset.high, slider.dataset.low));
    let timer = 0, asked = 0;
    const move = () => { slider.value = high > low ? 1000 * (Math.log(epsilon.value || slider.dataset.low) - low) / (high - low) : 0; };
    slider.hidden = high <= low;
    move();
    slider.addEventListener("input", () => {
      epsilon.value = Number(Math.exp(low + slider.value / 1000 * (high - low)).toPrecision(3));
    });
    epsilon.addEventListener("input", move);
    async function forecast() {
      const mine = ++asked;
      shown.setAttribute("aria-busy", "true");
      const nodes = await part(form.dataset.forecast, {
        method: "POST", headers: { Accept: "text/x-part" }, body: new URLSearchParams(new FormData(form)),
      });
      if (mine === asked) { // a later one is on its way otherwise
        added(shown, nodes);
        shown.removeAttribute("aria-busy");
      }
    }
    form.addEventListener("input", () => {
      clearTimeout(timer);
      if (form.checkValidity()) timer = setTimeout(forecast, 250);
    });
    if (form.checkValidity() && !shown.querySelector("b, .loud")) forecast();
  });

  document.querySelectorAll("[data-job]").forEach((job) => {
    async function look() {
      const answer = await fetch(job.dataset.job, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      if (!answer.ok || answer.redirected || (await answer.json()).state !== job.dataset.state) location.reload();
      else setTimeout(look, 1000 * Math.max(0.5, Number(job.dataset.slot)));
    }
    setTimeout(look, 1000 * Number(job.dataset.wait) + 200);
  });

  document.querySelectorAll("[data-into]").forEach((file) => {
    file.hidden = false;
    file.addEventListener("change", async () => {
      file.form.elements[file.dataset.into].value = file.files.length ? await file.files[0].text() : "";
    });
  });
})();
