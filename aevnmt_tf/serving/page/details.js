// The details of a sentence as elements: n-best list, samples, attention.

import { heatMap, numbers, unpadded } from "./heatmap.js";
import { build, compared } from "./text.js";

const LOWEST = -3.4e38; // the score of a translation that is not there

export function nothing() {
  return build("span", { class: "note" }, "(nothing)");
}

function shown(text, reference) {
  return text ? compared(text, reference) : nothing();
}

export function nbestTable(translations, scores) {
  const there = translations.filter((_, i) => scores[i] !== null && scores[i] > LOWEST);
  const rows = there.map((text, i) => build(
    "tr", {},
    build("td", { class: "rank" }, `${i + 1}`),
    build("td", { class: "text" }, shown(text, translations[0])),
    build("td", { class: "score" }, scores[i].toFixed(3).replace("-", "−")),
  ));
  const names = ["Rank", "Translation", "Score"];
  const head = names.map((name) => build("th", { scope: "col" }, name));
  const thead = build("thead", { class: "visually-hidden" }, build("tr", {}, ...head));
  const body = build("tbody", {}, ...rows);
  return [build("table", { class: "list" }, thead, body)];
}

// The samples, the most frequent first, each once.
export function sampleList(translations, reference) {
  const counts = new Map();
  for (const text of translations) counts.set(text, (counts.get(text) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  const items = sorted.map(([text, count]) => {
    const times = count > 1 ? [build("span", { class: "times" }, ` × ${count}`)] : [];
    return build("li", {}, shown(text, reference), ...times);
  });
  return [build("ul", { class: "samples" }, ...items)];
}

export function attentionParts(outputs) {
  const attention = unpadded(outputs);
  if (!attention.target.length) return [build("p", {}, nothing())];
  return [...heatMap(attention), numbers(attention)];
}

// What the samples of a model are, by Model.kind().
const DIFFER = "Underlined: not in the translation.";
export const SAMPLES = {
  latent: {
    title: "Posterior samples",
    note: `Each draws z from the latent posterior of the sentence, then words given z. ${DIFFER}`,
  },
  plain: {
    title: "Samples",
    note: `This model has no latent variable: only the words are drawn. ${DIFFER}`,
  },
  unknown: { title: "Samples", note: `Each is drawn from the model. ${DIFFER}` },
};

export const ABSENT = {
  nbest: "This model was exported without lists of translations.",
  sample: "This model was exported without sampling.",
  attention: "This model was exported without attention.",
};
