"use strict";
(() => {
  // the numbers of the figures are unpacked when somebody asks for them
  const unpacked = async () => {
    const packed = JSON.parse(document.getElementById("figure-data").textContent);
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  let data;
  const said = document.querySelector(".copied");
  let timer = 0;
  const say = (text) => {
    said.textContent = text;
    said.hidden = false;
    clearTimeout(timer);
    timer = setTimeout(() => { said.hidden = true; }, 1800);
  };
  const copyByHand = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copyByHand(text);
    }
  };
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    data ??= await unpacked();
    const figure = data[button.dataset.figure];
    const text = button.dataset.copy === "csv" ? figure.csv : JSON.stringify(figure.spec, null, 1);
    say((await copy(text)) ? "copied" : "the browser did not allow copying");
  });

  // tool tips at once instead of after the browser's delay; without this script the titles stay
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const title of document.querySelectorAll(".figure-svg title")) {
    title.parentNode.setAttribute("data-tip", title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", (event) => {
    const mark = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.getAttribute("data-tip");
    const width = document.documentElement.clientWidth;
    tip.style.left = `${Math.min(event.pageX + 14, window.scrollX + width - Math.min(360, tip.offsetWidth + 20))}px`;
    tip.style.top = `${event.pageY + 16}px`;
  });

  // a link into a folded section opens it
  const unfold = () => {
    const folded = document.getElementById(location.hash.slice(1))?.querySelector("details.folded");
    if (folded) folded.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  for (const a of document.querySelectorAll(".contents a")) a.addEventListener("click", () => setTimeout(unfold));

  // a printed report holds every folded section and machine file
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:is(.machine, .folded):not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });

  const links = new Map([...document.querySelectorAll(".contents a")].map((a) => [a.getAttribute("href").slice(1), a]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const a of links.values()) a.classList.remove("here");
      links.get(entry.target.id).classList.add("here");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const section of document.querySelectorAll("section[id]")) watch.observe(section);
})();
