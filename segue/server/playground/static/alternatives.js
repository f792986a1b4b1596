// What else a token could have been: shown on pointing, tapping or Alt ↓, and chosen to branch.

import { percent, visible } from "./tokens.js";

const OPEN_AFTER_MS = 90;
const CLOSE_AFTER_MS = 260;

export class Alternatives {
  #box = document.getElementById("alternatives");
  #index = -1;
  #timer = 0;

  constructor({ sheet, onBranch }) {
    this.sheet = sheet;
    this.onBranch = onBranch;
    this.#box.addEventListener("pointerenter", () => clearTimeout(this.#timer));
    this.#box.addEventListener("pointerleave", () => this.point(-1));
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#alternatives, #text")) this.close();
    });
  }

  get isOpen() {
    return !this.#box.hidden;
  }

  /** The pointer is over this token, or over none. */
  point(index) {
    clearTimeout(this.#timer);
    const isToken = index !== null && index >= 0 && this.sheet.segments[index]?.top;
    if (isToken && index === this.#index) return;
    this.#timer = setTimeout(() => (isToken ? this.open(index) : this.close()), isToken ? OPEN_AFTER_MS : CLOSE_AFTER_MS);
  }

  open(index, { focus = false } = {}) {
    const token = this.sheet.segments[index];
    if (!token?.top) return;
    clearTimeout(this.#timer);
    this.#index = index;
    this.#box.replaceChildren(this.#head(token), ...token.top.map(([name, logprob]) => this.#choice(name, logprob, token)));
    this.#box.hidden = false;
    this.sheet.mark(index);
    this.#place(this.sheet.rect(index));
    if (focus) this.#box.querySelector("button:not(:disabled)")?.focus();
  }

  close({ refocus = false } = {}) {
    clearTimeout(this.#timer);
    if (this.#box.hidden) return;
    this.#box.hidden = true;
    this.#index = -1;
    this.sheet.mark(-1);
    if (refocus) this.sheet.focus();
  }

  #head(token) {
    const head = document.createElement("header");
    const name = document.createElement("b");
    name.textContent = visible(token.t || token.name);
    const more = document.createElement("span");
    more.textContent = `${percent(token.p)} · id ${token.id}`;
    head.append(name, more);
    return head;
  }

  #choice(name, logprob, token) {
    const button = document.createElement("button");
    const [text, bar, share] = [document.createElement("span"), document.createElement("i"), document.createElement("span")];
    const isBytes = name.startsWith("bytes:");
    text.textContent = isBytes ? name.slice(6) : visible(name);
    bar.style.setProperty("--share", Math.exp(logprob));
    bar.setAttribute("aria-hidden", "true");
    share.textContent = percent(logprob);
    button.type = "button";
    button.append(text, bar, share);
    if (name === token.name) {
      button.setAttribute("aria-current", "true");
      button.disabled = true;
    } else if (isBytes) {
      button.disabled = true;
      button.title = "Part of a character: it cannot stand alone";
    } else {
      button.title = "Go on from here with this token";
      button.addEventListener("click", () => {
        const index = this.#index;
        this.close();
        this.onBranch(index, name, logprob);
      });
    }
    return button;
  }

  #place(rect) {
    const { width, height } = this.#box.getBoundingClientRect();
    const left = Math.max(8, Math.min(rect.left, innerWidth - width - 8));
    const isBelow = rect.bottom + height + 12 < innerHeight;
    this.#box.style.left = `${left}px`;
    this.#box.style.top = `${isBelow ? rect.bottom + 5 : Math.max(8, rect.top - height - 5)}px`;
  }

  #key(event) {
    const buttons = [...this.#box.querySelectorAll("button:not(:disabled)")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length]?.focus();
    else if (event.key === "ArrowUp") buttons.at(at - 1)?.focus();
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const next = this.sheet.neighbour(this.#index, event.key === "ArrowLeft" ? -1 : 1);
      if (next >= 0) this.open(next, { focus: true });
    } else if (event.key === "Escape") this.close({ refocus: true });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
