// The served models and their state, asked again while somebody looks.

import { ask } from "./api.js";

const SLOW_MS = 5000;
const FAST_MS = 1000;
const byId = (id) => document.getElementById(id);

export class Models {
  #timer = 0;
  #asked = 0; // how often; an answer to an earlier question, perhaps with another key, does not count
  #onKeys;
  #known = "";

  constructor({ onKeys, onReady }) {
    this.#onKeys = onKeys;
    this.onReady = onReady;
    this.wasReady = false;
    document.addEventListener("visibilitychange", () => !document.hidden && this.refresh());
    byId("model").addEventListener("change", () => this.refresh());
  }

  get name() {
    return byId("model").value;
  }

  async refresh() {
    clearTimeout(this.#timer);
    const asked = ++this.#asked;
    let wait = SLOW_MS;
    try {
      const { models, keys } = await ask("/play/models.json");
      if (asked !== this.#asked) return;
      byId("key-button").hidden = !keys;
      this.#options(models);
      const current = models.find((model) => served(model).includes(this.name)) ?? models[0];
      byId("model-dot").dataset.status = current.status;
      byId("model-dot").title = current.status;
      byId("models").replaceChildren(...models.map(card));
      if (current.status === "loading" || current.status === "restarting") wait = FAST_MS;
      if (current.status === "ready" && !this.wasReady) {
        this.wasReady = true;
        this.onReady();
      }
    } catch (error) {
      if (asked !== this.#asked) return;
      byId("model-dot").dataset.status = "gone";
      byId("model-dot").title = error.message;
      if (error.status === 401) this.#onKeys();
    }
    if (!document.hidden) this.#timer = setTimeout(() => this.refresh(), wait);
  }

  #options(models) {
    const names = models.flatMap(served);
    if (names.join("\n") === this.#known) return;
    this.#known = names.join("\n");
    const chosen = this.name;
    byId("model").replaceChildren(...names.map((name) => new Option(name, name)));
    if (names.includes(chosen)) byId("model").value = chosen;
  }
}

// Names to choose from: the model's, and its adapters', each of which is a model to a client.
const served = ({ name, adapters }) => [name, ...adapters];
const count = (number) => number.toLocaleString("en");

function card({ name, aliases, adapters, status, info, size, stats }) {
  const element = document.createElement("div");
  const title = document.createElement("h3");
  const dot = document.createElement("span");
  element.className = "card";
  dot.className = "dot";
  dot.dataset.status = status;
  title.append(dot, name);
  const list = document.createElement("dl");
  const rows = { state: status };
  if (aliases.length) rows["also called"] = aliases.join(", ");
  if (adapters.length) rows["LoRA adapters"] = adapters.join(", ");
  if (info) {
    rows.architecture = `${info.architecture}, ${info.quantization}`;
    rows.size = `${(info.num_params / 1e6).toFixed(0)} M parameters, ${size}`;
    rows.runner = info.runner;
    rows["same bytes"] = info.deterministic ? "promised, whatever else runs" : "not promised by this runner";
    rows.context = `${count(info.context_length)} tokens`;
    rows.infill = info.has_fim ? "by its own FIM tokens" : "by ranking";
  }
  if (stats) {
    rows["KV cache"] = `${count(stats.cells_used)} of ${count(stats.cells_total)} tokens`;
    rows.requests = `${stats.running} running, ${stats.waiting} waiting, ${count(stats.finished)} finished`;
    const read = stats.prompt_tokens ? Math.round((100 * stats.cached_tokens) / stats.prompt_tokens) : 0;
    rows.prompts = `${count(stats.prompt_tokens)} tokens, ${read} % from the cache`;
  }
  for (const [term, words] of Object.entries(rows)) {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = term;
    dd.textContent = words;
    list.append(dt, dd);
  }
  element.append(title, list);
  return element;
}
