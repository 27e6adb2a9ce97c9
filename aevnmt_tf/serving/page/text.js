// Elements and words. Text goes into the page as text, never as HTML.

// build("p", { class: "note" }, "Hello ", element)
export function build(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A piece of a sentence; the marks of subwords and </s> are dimmed.
export function piece(text) {
  if (text === "</s>") return build("span", { class: "dim" }, text);
  if (text.startsWith("▁")) {
    return build("span", {}, build("span", { class: "dim" }, "▁"), text.slice(1));
  }
  if (text.length > 2 && text.endsWith("@@")) {
    return build("span", {}, text.slice(0, -2), build("span", { class: "dim" }, "@@"));
  }
  return build("span", {}, text);
}

const TOKEN = /[\p{L}\p{M}\p{N}]+|\s+|./gsu; // a word, a space or a mark
const MOST_PAIRS = 1_000_000; // of tokens; longer texts are not compared

// The text, with the words underlined that are not in the reference at this place.
export function compared(text, reference) {
  const tokens = text.match(TOKEN) ?? [];
  const others = reference.match(TOKEN) ?? [];
  const line = build("span", { dir: "auto" });
  if (tokens.length * others.length > MOST_PAIRS) {
    line.append(text);
    return line;
  }
  const kept = common(tokens, others);
  tokens.forEach((token, i) => {
    const same = kept.has(i) || !token.trim();
    line.append(same ? token : build("span", { class: "differs" }, token));
  });
  return line;
}

// The positions in a of a longest common subsequence of a and b.
export function common(a, b) {
  const length = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i][j] = a[i] === b[j]
        ? length[i + 1][j + 1] + 1
        : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const kept = new Set();
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) { kept.add(i); i++; j++; }
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return kept;
}
