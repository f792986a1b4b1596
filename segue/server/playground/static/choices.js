// Several choices of one request, side by side.

import { shade } from "./tokens.js";

const box = document.getElementById("choices");
let texts = new Map();

/** One column a node; none where there is only one. */
export function drawChoices(nodes, current, onChoose) {
  box.hidden = nodes.length < 2;
  texts = new Map();
  if (box.hidden) return box.replaceChildren();
  const columns = nodes.map((node, index) => {
    const column = document.createElement("button");
    const head = document.createElement("small");
    const text = document.createElement("span");
    const finish = node.facts?.finish?.[index];
    column.type = "button";
    column.className = "choice";
    column.setAttribute("aria-pressed", node.id === current?.id);
    head.textContent = `choice ${index + 1}${finish ? ` · ${node.tokens.length} tokens · ${finish}` : ""}`;
    text.append(...node.tokens.map(span));
    column.append(head, text);
    column.addEventListener("click", () => onChoose(node));
    texts.set(node.id, text);
    return column;
  });
  return box.replaceChildren(...columns);
}

export function appendToChoice(node, segment) {
  texts.get(node.id)?.append(span(segment));
}

function span(segment) {
  const element = document.createElement("span");
  element.textContent = segment.t;
  if (segment.id !== undefined) element.className = `tok p${shade(segment.p)}`;
  return element;
}
