// The same request in any dialect, as code, and the raw bytes of the answer.

import { ask, stream } from "./api.js";

const MAX_RAW_CHARS = 200_000;
const byId = (id) => document.getElementById(id);

export class Wire {
  #asked = () => null;
  #said = null;
  #raw = "";
  #abort = null;

  /** `asked` gives the request of now and its prompt as text, or throws. */
  constructor(asked) {
    this.#asked = asked;
    for (const id of ["wire-dialect", "wire-language"]) byId(id).addEventListener("change", () => this.refresh());
    byId("wire-copy").addEventListener("click", () => this.#copy());
    byId("wire-send").addEventListener("click", () => this.#send());
  }

  fill({ dialects, languages }) {
    const names = dialects.map(({ name, system }) => new Option(name === "openai" ? "OpenAI (the root)" : system, name));
    byId("wire-dialect").replaceChildren(...names);
    byId("wire-language").replaceChildren(...languages.map((name) => new Option(name, name)));
  }

  get isShown() {
    return !byId("wire").hidden;
  }

  /** The code for the request of now; asked of the server, whose tables know every dialect. */
  async refresh() {
    if (!this.isShown) return;
    try {
      this.#said = await ask("/play/translate", { dialect: byId("wire-dialect").value, ...this.#asked() });
    } catch (error) {
      this.#said = null;
      byId("wire-code").textContent = error.message;
      byId("wire-lost").hidden = true;
      return;
    }
    const { code, lost } = this.#said;
    byId("wire-code").textContent = code[byId("wire-language").value];
    byId("wire-lost").hidden = !lost.length;
    byId("wire-lost").textContent = `This dialect has no words for: ${lost.join(", ")}.`;
  }

  begin() {
    this.#raw = "";
    byId("wire-raw").textContent = "";
  }

  /** More of the answer, as it came. */
  hear(text) {
    this.#raw = (this.#raw + text).slice(-MAX_RAW_CHARS);
    if (this.isShown) byId("wire-raw").textContent = this.#raw;
  }

  showRaw() {
    byId("wire-raw").textContent = this.#raw || "Nothing was sent yet.";
  }

  async #send() {
    await this.refresh();
    if (!this.#said) return;
    this.#abort?.abort();
    this.#abort = new AbortController();
    this.begin();
    try {
      for await (const _ of stream(this.#said.path, this.#said.body, this.#abort.signal, (text) => this.hear(text)));
    } catch {
      // What was refused is there to read.
    }
  }

  async #copy() {
    const button = byId("wire-copy");
    try {
      await navigator.clipboard.writeText(byId("wire-code").textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(byId("wire-code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
}
