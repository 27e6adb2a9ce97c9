// A part of the page that asks the server and shows what it says: busy, error or result.

import { build } from "./text.js";

export class Panel {
  // ask(signal) gives a promise of outputs; show(outputs) gives the elements to show.
  constructor(id, { ask, show }) {
    this.section = document.getElementById(id);
    this.body = this.section.querySelector(".body");
    this.message = this.section.querySelector(".message");
    this.ask = ask;
    this.show = show;
    this.controller = null;
  }

  // True where the result came; a later call or stop() ends this one.
  async load() {
    this.stop();
    const controller = new AbortController();
    this.controller = controller;
    this.message.hidden = true;
    this.section.setAttribute("aria-busy", "true");
    try {
      const outputs = await this.ask(controller.signal);
      if (controller.signal.aborted) return false;
      this.body.replaceChildren(...this.show(outputs));
      return true;
    } catch (error) {
      if (controller.signal.aborted) return false;
      this.body.replaceChildren();
      showError(this.message, error, () => this.load());
      return false;
    } finally {
      if (this.controller === controller) this.section.setAttribute("aria-busy", "false");
    }
  }

  stop() {
    this.controller?.abort();
    this.controller = null;
    this.section.setAttribute("aria-busy", "false");
  }

  clear() {
    this.stop();
    this.message.hidden = true;
    this.body.replaceChildren();
  }

  explain(text) {
    this.clear();
    this.body.replaceChildren(build("p", { class: "note" }, text));
  }
}

// A sentence and a button that tries again.
export function showError(place, error, retry) {
  if (!error.kind) console.error(error); // Not the server's: a mistake of this page.
  const text = error.kind ? error.message : `The page failed: ${error.message}`;
  const again = build("button", { type: "button" }, "Try again");
  again.addEventListener("click", () => {
    // The button vanishes; the focus stays near.
    (place.closest("section") ?? document.getElementById("source")).focus();
    place.hidden = true;
    retry();
  });
  place.replaceChildren(build("p", {}, text), again);
  place.hidden = false;
}
