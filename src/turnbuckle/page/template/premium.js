// What a fabric may cost: the same work holds the GPU for the run time, and a pooled GPU may be used more.
(() => {
  const table = document.getElementById("fabrics");
  const section = document.getElementById("by-hand");
  const [premium, use] = ["premium", "use"].map((name) => section.querySelector(`input[name=${name}]`));
  const percent = (share) => {
    const value = 100 * Math.abs(share);
    if (value > 0 && value < 0.01) return "<\u00a00.01\u00a0%";
    return `${Number(value.toFixed(value ? Math.max(0, Math.min(2, 2 - Math.floor(Math.log10(value)))) : 0))}\u00a0%`;
  };
  const judge = ([stated, low, high]) => {
    const cost = (penalty) => (penalty * (1 + premium.value / 100)) / use.value - 1;
    const less = `the work costs ${percent(cost(stated))} ${cost(stated) < 0 ? "less" : "more"}`;
    if (cost(high) <= 0) return ["good", `pays: ${less}`];
    return cost(low) > 0 ? ["poor", `does not pay: ${less}`] : ["fair", `not decided: ${less}`];
  };
  let moved = null;
  const follow = () => {
    if (!moved) {
      moved = table.tBodies[0].insertRow(0);
      moved.innerHTML = '<th scope="row" class="strong">by hand, above</th><td class="num"></td><td class="num"></td><td></td>';
    }
    const penalty = section.dataset.seconds / section.dataset.measured;
    const even = 1 / penalty - 1;
    moved.dataset.penalties = ["seconds", "low", "high"].map((end) => section.dataset[end] / section.dataset.measured).join(" ");
    moved.cells[1].textContent = `${penalty.toFixed(3)}\u00d7`;
    moved.cells[2].textContent = `${even < 0 ? "\u2212" : "+"}${Number((100 * Math.abs(even)).toPrecision(2))}\u00a0%`;
    show();
  };
  const show = () => {
    const said = { premium: percent(premium.value / 100), use: `${Number(use.value).toFixed(2)}\u00d7` };
    for (const [name, words] of Object.entries(said)) {
      document.getElementById(`lever-${name}`).textContent = words;
      table.querySelector(`[data-said=${name}]`).textContent = words;
    }
    for (const row of table.tBodies[0].rows) {
      const [tone, words] = judge(row.dataset.penalties.split(" ").map(Number));
      row.cells[3].className = tone;
      row.cells[3].textContent = words;
    }
  };
  section.querySelector(".premium").hidden = false;
  for (const input of [premium, use]) input.addEventListener("input", show);
  section.addEventListener("moved", follow);
  show();
})();
