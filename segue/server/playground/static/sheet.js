// The sheet: a textarea, and under it the same text in tinted tokens.

import { edited, joined, split, textOf } from "./tree.js";
import { shade } from "./tokens.js";

// A touch that is longer selects, one that moves scrolls.
const TAP_MS = 400;
const TAP_PX = 10;

export class Sheet {
  segments = [];
  #text = document.getElementById("text");
  #tinted = document.getElementById("tinted");
  #end = document.createTextNode("\u200b"); // gives the last empty line its height
  #spans = [];
  #gap = null;
  #isDrawn = true;
  #touch = null; // where and when the last one began

  constructor({ onEdit, onPoint, onTap }) {
    this.#tinted.append(this.#end);
    this.#text.addEventListener("input", () => {
      this.show(edited(this.segments, this.#text.value), { keepText: true });
      onEdit();
    });
    this.#text.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse" && !event.buttons) onPoint(this.#under(event));
    });
    this.#text.addEventListener("pointerleave", () => onPoint(null));
    this.#text.addEventListener("click", (event) => onTap(this.#under(event)));
    this.#text.addEventListener("touchstart", (event) => (this.#touch = began(event)), { passive: true });
    this.#text.addEventListener("touchend", (event) => this.#touched(event, onTap));
  }

  get text() {
    return this.#text.value;
  }

  get caret() {
    return this.#text.selectionStart;
  }

  focus() {
    this.#text.focus({ preventScroll: true });
  }

  set isBusy(value) {
    this.#text.readOnly = value;
    this.#text.setAttribute("aria-busy", value);
  }

  /** Show these segments and nothing else. */
  show(segments, { keepText = false } = {}) {
    this.segments = segments;
    this.#spans = segments.map((segment) => this.#span(segment));
    this.#tinted.replaceChildren(...this.#spans, this.#end);
    this.#gap = null;
    if (!keepText) this.#text.value = textOf(segments);
  }

  /** From now on `append` goes in at this place. */
  openGap(at) {
    const [before, after] = split(this.segments, at);
    this.show([...before, ...after]);
    this.#gap = after.length ? before.length : null;
  }

  append(segment) {
    const span = this.#span(segment);
    if (this.#gap === null) {
      this.segments.push(segment);
      this.#spans.push(span);
      this.#tinted.insertBefore(span, this.#end);
    } else {
      this.#tinted.insertBefore(span, this.#spans[this.#gap] ?? this.#end);
      this.segments.splice(this.#gap, 0, segment);
      this.#spans.splice(this.#gap, 0, span);
      this.#gap += 1;
    }
    if (!this.#isDrawn) return;
    this.#isDrawn = false;
    requestAnimationFrame(() => this.settle());
  }

  /** The textarea's own text, once a frame: it is what is selected, searched and read aloud. */
  settle() {
    this.#isDrawn = true;
    const text = textOf(this.segments);
    if (this.#text.value !== text) this.#text.value = text;
  }

  placeCaret(at) {
    this.#text.setSelectionRange(at, at);
  }

  /** The index of the segment that holds this character, if it is a token. */
  tokenAt(at) {
    let start = 0;
    const index = this.segments.findIndex((segment) => at < (start += segment.t.length));
    const found = index < 0 ? this.segments.length - 1 : index;
    return this.segments[found]?.id === undefined ? -1 : found;
  }

  /** The nearest token in a direction, or -1. */
  neighbour(index, step) {
    for (let at = index + step; at >= 0 && at < this.segments.length; at += step) {
      if (this.segments[at].id !== undefined && this.segments[at].t) return at;
    }
    return -1;
  }

  rect(index) {
    return this.#spans[index].getClientRects()[0] ?? this.#spans[index].getBoundingClientRect();
  }

  mark(index) {
    this.#tinted.querySelector(".at")?.classList.remove("at");
    this.#spans[index]?.classList.add("at");
  }

  tidy() {
    this.show(joined(this.segments));
  }

  /** The first tap on a token points at it. The next, or one on other text, begins to edit: a keyboard covers half a phone. */
  #touched(event, onTap) {
    const start = this.#touch;
    const end = event.changedTouches[0];
    const isTap = start && event.cancelable && event.timeStamp - start.time < TAP_MS &&
      Math.hypot(end.clientX - start.x, end.clientY - start.y) < TAP_PX;
    const index = isTap && document.activeElement !== this.#text ? this.#under(end) : -1;
    if (index < 0 || !this.segments[index].top || this.#spans[index].classList.contains("at")) return;
    event.preventDefault();
    onTap(index);
  }

  #under(event) {
    const span = document.elementsFromPoint(event.clientX, event.clientY).find((each) => each.classList.contains("tok"));
    return span ? this.#spans.indexOf(span) : -1;
  }

  #span(segment) {
    const span = document.createElement("span");
    span.textContent = segment.t;
    if (segment.id !== undefined) span.className = `tok p${shade(segment.p)}`;
    return span;
  }
}

/** Of a touch by one finger; null of more. */
function began({ touches, timeStamp }) {
  return touches.length === 1 ? { x: touches[0].clientX, y: touches[0].clientY, time: timeStamp } : null;
}
