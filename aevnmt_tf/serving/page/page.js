// The page: a sentence in; its translation, the n-best list, samples and attention out.

import { Model, models } from "./api.js";
import { ABSENT, SAMPLES, attentionParts, nbestTable, nothing, sampleList } from "./details.js";
import { Panel, showError } from "./panel.js";
import { build } from "./text.js";

const AT_ONCE = 16; // lines in one request
const LARGEST_SEED = 2 ** 31 - 1;
const HESITATION = 150; // milliseconds before the details of a chosen line are asked for

const $ = (id) => document.getElementById(id);

let model = null;
let lines = []; // { source, translation, place } of what was translated last
let chosen = null; // the line that the details are about
let work = null; // AbortController of the translation under way
let hesitating = 0;

const panels = {
  nbest: new Panel("nbest", {
    ask: (signal) => model.predict("nbest", { source: [chosen.source] }, signal),
    show: ({ translations, scores }) => nbestTable(translations[0], scores[0]),
  }),
  sample: new Panel("samples", {
    ask: (signal) => model.predict(
      "sample", { source: [chosen.source], seed: [seed()] }, signal,
    ),
    show: ({ translations }) => sampleList(translations[0], chosen.translation),
  }),
  attention: new Panel("attention", {
    ask: (signal) => model.predict("attention", { source: [chosen.source] }, signal),
    show: (outputs) => attentionParts({
      source_pieces: outputs.source_pieces[0],
      target_pieces: outputs.target_pieces[0],
      attention: outputs.attention[0],
    }),
  }),
};

// Connecting.

async function connect() {
  $("banner").hidden = true;
  $("model-state").textContent = "connecting …";
  try {
    const names = await models();
    const select = $("model");
    const before = select.value;
    select.replaceChildren(...names.map((name) => build("option", { value: name }, name)));
    if (names.includes(before)) select.value = before;
    select.hidden = names.length < 2;
    await use(select.value);
  } catch (error) {
    $("model-state").textContent = "not connected";
    showError($("banner"), error, connect);
  }
}

async function use(name) {
  model = null;
  reset();
  const next = new Model(name);
  await next.refresh();
  if ($("model").value !== name) return; // Another one has been chosen since.
  model = next;
  describe();
}

// What the header and the explanations say about the model.
function describe() {
  const named = $("model").hidden && model.name !== document.title;
  const one = named ? `model ${model.name}, ` : "";
  const { source, target } = model.text;
  const [from, to] = [languageName(source?.lang), languageName(target?.lang)];
  const pair = from && to ? `${from} to ${to}, ` : "";
  $("model-state").textContent = `${pair}${one}version ${model.version}`;
  $("source-title").textContent = from ? `Source (${from})` : "Source";
  $("translation-title").textContent = to ? `Translation (${to})` : "Translation";
  $("source").placeholder = source?.example
    ? `For example: ${source.example}` : "A sentence, or several, each on its own line";
  $("takes").hidden = !source?.note;
  $("takes").textContent = `The model takes ${source?.note}.`;
  const kind = model.kind();
  $("samples-title").textContent = SAMPLES[kind].title;
  $("samples-note").textContent = SAMPLES[kind].note;
  const can = model.has("sample");
  $("samples-note").hidden = !can;
  $("samples").querySelector(".draw").hidden = !can;
  for (const id of ["nbest", "attention"]) {
    for (const part of $(id).querySelectorAll(".legend, .title + .note")) part.hidden = !model.has(id);
  }
}

// The English name of a language such as de; the code itself where it is none.
function languageName(code) {
  if (!code) return "";
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

// Translating.

async function translate() {
  if (work) return;
  const sources = $("source").value.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  complain(sources.length ? "" : "Type a sentence first.");
  if (!sources.length) {
    $("source").focus();
    return;
  }
  if (!model) {
    await connect();
    if (!model || work) return;
  }
  reset();
  const controller = new AbortController();
  work = controller;
  busy(true);
  lines = sources.map((source) => ({ source, translation: null, place: null }));
  showLines();
  try {
    await refreshed();
    for (let start = 0; start < lines.length; start += AT_ONCE) {
      await translateSome(lines.slice(start, start + AT_ONCE), controller.signal);
      if (!start) choose(lines[0]);
    }
    say(lines.length > 1 ? `${lines.length} lines translated` : "");
  } catch (error) {
    abandon();
    if (controller.signal.aborted) say("Stopped");
    else failed(error);
  } finally {
    work = null;
    busy(false);
    $("copy").hidden = !navigator.clipboard || !lines.some((line) => line.translation);
  }
}

async function translateSome(some, signal) {
  const source = some.map((line) => line.source);
  const { translation } = await model.predict("serving_default", { source }, signal);
  some.forEach((line, i) => {
    line.translation = translation[i];
    line.place.replaceChildren(translation[i] || nothing());
    line.place.classList.remove("waiting");
    if (line.radio) line.radio.disabled = false;
  });
}

// The server may have taken up another version since.
async function refreshed() {
  const before = model.version;
  await model.refresh();
  if (model.version !== before) describe();
}

// Nothing waits any more.
function abandon() {
  if (lines.every((line) => line.translation === null)) $("translation").replaceChildren();
  for (const line of lines.filter((line) => line.translation === null)) {
    line.place.replaceChildren("–");
    line.place.classList.remove("waiting");
  }
}

function failed(error) {
  const message = build("div", { class: "message", role: "alert" });
  $("translation").append(message);
  showError(message, error, translate);
}

function showLines() {
  const place = $("translation");
  if (lines.length === 1) {
    lines[0].place = build("p", { class: "single waiting", dir: "auto" }, "…");
    place.replaceChildren(lines[0].place);
    return;
  }
  const legend = build("legend", { class: "note" }, "Choose a line to see its details.");
  const choices = lines.map((line, i) => {
    const radio = build("input", { type: "radio", name: "line", value: i });
    radio.disabled = true;
    radio.addEventListener("change", () => choose(line, HESITATION));
    line.place = build("span", { class: "to waiting", dir: "auto" }, "…");
    line.radio = radio;
    const from = build("span", { class: "from", dir: "auto" }, line.source);
    return build("label", { class: "line" }, radio, build("span", {}, from, line.place));
  });
  place.replaceChildren(build("fieldset", {}, legend, ...choices));
}

// Shows the details of a line, after a moment where the reader may be passing through.
function choose(line, hesitation = 0) {
  if (line.radio) line.radio.checked = true;
  clearTimeout(hesitating);
  hesitating = setTimeout(() => {
    chosen = line;
    $("details").hidden = false;
    $("details-of").hidden = lines.length < 2;
    $("details-of").textContent = line.source;
    for (const [signature, panel] of Object.entries(panels)) {
      if (model.has(signature)) panel.load();
      else panel.explain(ABSENT[signature]);
    }
  }, hesitation);
}

// The seed in the field; 1 where that is none.
function seed() {
  if (!$("seed").value || !$("seed").validity.valid) $("seed").value = 1;
  return $("seed").valueAsNumber;
}

async function draw() {
  if (!chosen) return;
  if (await panels.sample.load()) say(`Samples with seed ${seed()}`);
}

// What is under way, and what is said about it.

function busy(on) {
  $("translation").setAttribute("aria-busy", `${on}`);
  $("translate").setAttribute("aria-disabled", `${on}`);
  $("translate").textContent = on ? "Translating …" : "Translate";
  // A button that vanishes must not take the focus with it.
  if (!on && document.activeElement === $("stop")) $("translate").focus();
  $("stop").hidden = !on;
  if (on) say("Translating");
}

function reset() {
  clearTimeout(hesitating);
  lines = [];
  chosen = null;
  for (const panel of Object.values(panels)) panel.clear();
  $("translation").replaceChildren();
  $("details").hidden = true;
  $("details-of").hidden = true;
  $("copy").hidden = true;
}

function complain(text) {
  $("source-error").textContent = text;
  if (text) $("source").setAttribute("aria-invalid", "true");
  else $("source").removeAttribute("aria-invalid");
}

function say(text) {
  $("status").textContent = text;
}

// Events.

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
$("source").addEventListener("input", () => complain(""));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
    event.preventDefault();
    translate();
  } else if (event.key === "Escape" && work) {
    work.abort();
  }
});
$("stop").addEventListener("click", () => work?.abort());
$("again").addEventListener("click", () => {
  $("seed").value = seed() < LARGEST_SEED ? seed() + 1 : 1;
  draw();
});
$("seed").addEventListener("change", draw);
$("copy").addEventListener("click", async () => {
  const text = lines.map((line) => line.translation ?? "").join("\n");
  const done = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not allowed");
  $("copy").textContent = done;
  say(done);
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
});
$("model").addEventListener("change", () => {
  work?.abort();
  connect();
});
const apple = /Mac|iPhone|iPad/.test(navigator.platform);
$("shortcut").textContent = apple ? "⌘ Enter" : "Ctrl + Enter";
connect();
