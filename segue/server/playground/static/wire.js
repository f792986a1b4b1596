// The same request in any dialect, as code, and the raw bytes of the answer.

import { ask, stream } from "./api.js";

const MAX_RAW_CHARS = 200_000;
const byId = (id) => document.getElementById(id);

export class Wire {
  #asked = () => null;
  #asking = 0; // the number of the latest question: an earlier one may be answered later
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

  /** The request of now and its code, or nothing; asked of the server, whose tables know every dialect. */
  async refresh() {
    if (!this.isShown) return null;
    const number = ++this.#asking;
    let said = null;
    let problem = "";
    try {
      said = await ask("/play/translate", { dialect: byId("wire-dialect").value, ...this.#asked() });
    } catch (error) {
      problem = error.message;
    }
    if (number !== this.#asking) return said;
    byId("wire-code").textContent = said ? said.code[byId("wire-language").value] : problem;
    byId("wire-lost").hidden = !said?.lost.length;
    byId("wire-lost").textContent = `This dialect has no words for: ${said?.lost.join(", ")}.`;
    return said;
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
    const said = await this.refresh();
    if (!said) return;
    this.#abort?.abort();
    this.#abort = new AbortController();
    this.begin();
    try {
      for await (const _ of stream(said.path, said.body, this.#abort.signal, (text) => this.hear(text)));
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
