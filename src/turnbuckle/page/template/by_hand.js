"use strict";
// Moves the run for what the sliders say: the longest path through its graph, as the command line replays it, or bounds of it.
(async () => {
  const section = document.getElementById("by-hand");
  const told = JSON.parse(document.getElementById("by-hand-data").textContent);

  // A run too large for a page is known at some points, with a plane that touches it at each.
  const bounded = () => {
    const { points, slopes, seconds } = told;
    const [first, top] = points;
    const axes = first.map((_, axis) => axis);
    const least = (place) =>
      Math.max(...points.map((point, j) => axes.reduce((sum, k) => sum + slopes[j][k] * (place[k] - point[k]), seconds[j])));
    // The cheapest mean of known points that lies at or above a place in all axes, by the simplex method from the topmost point.  Every
    // step is such a mean, so wherever it stops the answer is a bound.
    const most = (place) => {
      const mean = [...points.map(() => 1), ...axes.map(() => 0), 1];
      const rows = axes.map((k) => [
        ...points.map((point) => (top[k] - point[k]) / top[k]), ...axes.map((n) => Number(n === k)), Math.max(top[k] - place[k], 0) / top[k],
      ]);
      rows.push(mean);
      const basis = [...axes.map((k) => points.length + k), 1];
      const costs = [...points.map((_, j) => seconds[j] - seconds[1]), ...axes.map(() => 0)];
      const last = mean.length - 1;
      for (let step = 0; step < 400; step++) {
        const enters = costs.reduce((best, cost, j) => (cost < costs[best] ? j : best), 0);
        if (costs[enters] >= -1e-12 * seconds[1]) break;
        let leaves = -1;
        rows.forEach((row, r) => {
          if (row[enters] > 1e-12 && (leaves < 0 || row[last] / row[enters] < rows[leaves][last] / rows[leaves][enters])) leaves = r;
        });
        if (leaves < 0) break;
        const pivot = rows[leaves].map((value) => value / rows[leaves][enters]);
        rows.forEach((row, r) => { rows[r] = r === leaves ? pivot : row.map((value, j) => value - row[enters] * pivot[j]); });
        const cost = costs[enters];
        costs.forEach((value, j) => { costs[j] = value - cost * pivot[j]; });
        basis[leaves] = enters;
      }
      return rows.reduce((sum, row, r) => (basis[r] < points.length ? sum + Math.max(row[last], 0) * seconds[basis[r]] : sum), 0);
    };
    return ({ latency, byte, launch, kernel, host }) => {
      const place = [latency, byte, launch, kernel, host];
      const low = least(place);
      const high = Math.max(most(place), low);
      return { seconds: (low + high) / 2, low, high, parts: null };
    };
  };

  const replayed = async () => {
    const bytes = Uint8Array.from(atob(told.arrays), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const buffer = await new Response(stream).arrayBuffer();
    let at = 0;
    const take = (Kind, count) => {
      const end = at + count * Kind.BYTES_PER_ELEMENT;
      const array = new Kind(buffer.slice(at, end));
      at = end;
      return array;
    };
    const summed = (steps) => {
      for (let k = 1; k < steps.length; k++) steps[k] += steps[k - 1];
      return steps;
    };
    const { parameters, instants, edges } = told;
    const rows = Array.from({ length: 9 }, () => take(Float64Array, parameters));
    const residual = take(Float64Array, instants);
    const lag = take(Float64Array, edges);
    const source = summed(take(Uint32Array, edges));
    const target = summed(take(Uint32Array, edges));
    const first = take(Uint16Array, edges);
    const second = take(Uint16Array, edges);
    const kind = take(Uint8Array, edges);
    const values = new Float64Array(parameters);
    const time = new Float64Array(instants);
    const decided = new Int32Array(instants);

    const slope = (edge) =>
      values[first[edge]] * (kind[edge] & 1 ? 1e9 : lag[edge]) + values[second[edge]] * (kind[edge] & 2 ? 1e9 : lag[edge]);
    // Replays so much of the way to what is set, and returns the last instant.
    const walk = (share) => {
      let edge = 0;
      let end = 0;
      for (let v = 0; v < instants; v++) {
        let latest = -Infinity;
        let by = -1;
        for (; edge < edges && target[edge] === v; edge++) {
          const reached = time[source[edge]] + Math.max(lag[edge] + share * slope(edge), 0);
          if (reached > latest) {
            latest = reached;
            by = edge;
          }
        }
        time[v] = (by < 0 ? 0 : latest) + residual[v];
        decided[v] = by;
        if (time[v] > time[end]) end = v;
      }
      return end;
    };
    // Adds up what an edge of the critical path is worth, by part [s].
    const byPart = (end, worth) => {
      const parts = told.parts.map(() => 0);
      for (let v = end; decided[v] >= 0; v = source[decided[v]]) parts[(kind[decided[v]] >> 2) & 3] += worth(decided[v], v) * 1e-9;
      return parts;
    };
    const start = walk(0);
    const unchanged = time[start];
    const asRecorded = byPart(start, (edge, v) => time[v] - time[source[edge]]);
    asRecorded[asRecorded.length - 1] += told.beyond;

    // A bar is the recorded one plus its change along the way, as in the other figures: a tie of paths moves nothing between parts.
    return ({ latency, byte, launch, kernel, host }) => {
      for (let p = 0; p < parameters; p++) {
        const link = rows[0][p] + latency * rows[1][p] + byte * rows[2][p];
        const reads = rows[3][p] + latency * rows[4][p] + byte * rows[5][p];
        values[p] = Math.max(link, reads) + (launch - 1) * rows[6][p] + (kernel - 1) * rows[7][p] + (host - 1) * rows[8][p];
      }
      const end = time[walk(1)];
      const changes = told.parts.map(() => 0);
      for (const [share, weight] of told.way) {
        byPart(walk(share), slope).forEach((change, k) => { changes[k] += weight * change; });
      }
      const sum = (parts) => parts.reduce((all, part) => all + part, 0);
      const missed = (end - unchanged) * 1e-9 - sum(changes);
      const moved = sum(changes.map(Math.abs));
      const last = changes.length - 1;
      const parts = asRecorded.map((part, k) => part + changes[k] + missed * (moved ? Math.abs(changes[k]) / moved : Number(k === last)));
      const kept = parts.map((part) => Math.max(part, 0));
      const scale = Math.max(sum(parts), 0) / (sum(kept) || 1);
      const total = end * 1e-9 + told.beyond;
      return { seconds: total, low: total, high: total, parts: kept.map((part) => part * scale) };
    };
  };

  if (told.arrays && typeof DecompressionStream === "undefined") return;
  const replay = told.arrays ? await replayed() : bounded();
  const seconds = (s) => {
    for (const [unit, worth] of [["s", 1], ["ms", 1e-3], ["\u00b5s", 1e-6]]) if (Math.abs(s) >= worth) return `${(s / worth).toPrecision(4)} ${unit}`;
    return `${(s * 1e9).toPrecision(3)} ns`;
  };
  const factor = (f) => `${f.toPrecision(3)}\u00d7`;
  const against = (change) => {
    if (Math.abs(change) < 5e-5) return "as recorded";
    if (change >= 1) return `${(1 + change).toPrecision(3)} times the recorded run`;
    return `${change > 0 ? "+" : "\u2212"}${(100 * Math.abs(change)).toPrecision(3)} % against the recorded run`;
  };
  // the latency slider begins at none, then goes by tenths of a decade
  const levers = {
    latency: { of: (at) => (at <= 0 ? 0 : 1e-7 * 10 ** ((at - 1) / 10)), words: (v) => (v ? seconds(v) : "none") },
    byte: { of: (at) => 2 ** (-at / 4), words: (v) => factor(1 / v) },
    launch: { of: (at) => 10 ** (at / 20), words: factor },
    kernel: { of: (at) => 10 ** (at / 20), words: factor },
    host: { of: (at) => 10 ** (at / 20), words: factor },
  };
  const inputs = Object.fromEntries(Object.keys(levers).map((name) => [name, section.querySelector(`input[name=${name}]`)]));
  const put = (name, text) => { section.querySelector(`[data-put=${name}]`).textContent = text; };
  const bars = section.querySelector(".bars");
  const bar = (words, total, parts, longest, colour) => {
    const row = document.createElement("div");
    row.className = "bar";
    const label = document.createElement("span");
    label.textContent = words;
    const track = document.createElement("span");
    track.className = "track";
    for (const [length, paint, title] of parts || [[total, colour, words]]) {
      const piece = document.createElement("span");
      piece.style.width = `${(100 * Math.max(length, 0)) / longest}%`;
      piece.style.background = paint;
      piece.setAttribute("data-tip", `${title}: ${seconds(length)}`);
      track.append(piece);
    }
    const value = document.createElement("span");
    value.className = "value";
    value.textContent = seconds(total);
    row.append(label, track, value);
    return row;
  };
  const show = () => {
    const set = {};
    for (const [name, lever] of Object.entries(levers)) {
      set[name] = lever.of(Number(inputs[name].value));
      put(name, lever.words(set[name]));
    }
    const now = replay(set);
    const error = (now.high - now.low) / 2;
    const sure = error < 5e-5 * now.seconds;
    put("seconds", sure ? seconds(now.seconds) : `${seconds(now.low)} to ${seconds(now.high)}`);
    put("change", against(now.seconds / told.measured - 1) + (sure ? "" : `, \u00b1${((100 * error) / told.measured).toPrecision(2)} %`));
    Object.assign(section.dataset, { seconds: now.seconds, low: now.low, high: now.high, measured: told.measured, parts: JSON.stringify(now.parts) });
    const longest = Math.max(now.high, told.measured, ...told.targets.map((t) => t.seconds));
    const coloured = (answer) => answer.parts.map((length, i) => [length, told.parts[i].colour, told.parts[i].words]);
    bars.replaceChildren(
      bar("by hand", now.seconds, now.parts ? coloured(now) : [[now.low, "var(--c4a5560,#4a5560)", "at least"], [now.high - now.low, "var(--line)", "at most as much more"]], longest),
      bar("as recorded", told.measured, coloured(recorded), longest),
      ...told.targets.filter((_, i) => boxes[i]?.checked !== false).map((t) => bar(t.name, t.seconds, null, longest, t.colour)),
    );
    section.dispatchEvent(new Event("moved"));
  };
  const recorded = told.recorded ? { parts: told.recorded } : replay({ latency: 0, byte: 1, launch: 1, kernel: 1, host: 1 });
  const boxes = [...section.querySelectorAll("input[type=checkbox]")];
  for (const input of [...Object.values(inputs), ...boxes]) input.addEventListener("input", show);
  section.querySelector("button").addEventListener("click", () => {
    for (const input of Object.values(inputs)) input.value = input.defaultValue;
    show();
  });
  for (const part of section.querySelectorAll("[hidden]")) part.hidden = false;
  for (const part of section.querySelectorAll(".without-script")) part.hidden = true;
  show();
})();
