// Draws one figure: a Vega-Lite specification as JSON in, SVG out.  Runs in QuickJS behind vega.min.js and before vega-lite.min.js.
"use strict";

// Vega-Lite copies parts of specifications with it: objects, lists and plain values.
globalThis.structuredClone = function clone(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(clone);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, clone(inner)]));
};

// Advance widths of Helvetica, which Arial and Liberation Sans share, in thousandths of the type size; the font stands in look.py.
const ASCII = [
  278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, // space to /
  556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, // 0 to ?
  1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, // @ to O
  667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, // P to _
  333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, // ` to o
  556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // p to ~
];
const OTHERS = { "\u00a0": 278, "\u00b5": 576, "\u00b7": 333, "\u00d7": 584, "\u2014": 1000, "\u2026": 1000, "\u2212": 584 };
const LETTER = 556;
const WIDE = 1000;
const BOLD = 1.07;

const advance = (letter) => ASCII[letter.codePointAt(0) - 32] ?? OTHERS[letter] ?? (letter < "\u2e80" ? LETTER : WIDE);

vega.textMetrics.width = (item, text) => {
  let sum = 0;
  for (const letter of String(text ?? "")) sum += advance(letter);
  const weight = item.fontWeight === "bold" || item.fontWeight >= 600 ? BOLD : 1;
  return (sum / 1000) * vega.textMetrics.height(item) * weight;
};

// Vega draws what it can after an error and tells its logger.  Half a figure is no figure.
const logger = {
  level: () => logger,
  info: () => logger,
  debug: () => logger,
  warn: () => logger,
  error: (error) => {
    throw error instanceof Error ? error : Error(error);
  },
};

globalThis.draw = (text) => {
  const { spec } = vegaLite.compile(JSON.parse(text), { logger });
  return new vega.View(vega.parse(spec), { renderer: "none", logger }).toSVG();
};
