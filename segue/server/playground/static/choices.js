// Several choices of one request, side by side.

import { shade } from "./tokens.js";

const box = document.getElementById("choices");
let columns = new Map();

/** One column a node; none where there is only one. */
export function drawChoices(nodes, current, onChoose) {
  box.hidden = nodes.length < 2;
  columns = new Map();
  if (box.hidden) return box.replaceChildren();
  nodes.forEach((node, index) => {
    const column = document.createElement("button");
    const head = document.createElement("small");
    const finish = node.facts?.finish?.[index];
    column.type = "button";
    column.className = "choice";
    column.setAttribute("aria-pressed", node.id === current?.id);
    head.textContent = `choice ${index + 1}${finish ? ` · ${node.tokens.length} tokens · ${finish}` : ""}`;
    column.append(head, ...node.tokens.map(span));
    column.addEventListener("click", () => onChoose(node));
    columns.set(node.id, column);
  });
  return box.replaceChildren(...columns.values());
}

export function appendToChoice(node, segment) {
  columns.get(node.id)?.append(span(segment));
}

function span(segment) {
  const element = document.createElement("span");
  element.textContent = segment.t;
  if (segment.id !== undefined) element.className = `tok p${shade(segment.p)}`;
  return element;
}
