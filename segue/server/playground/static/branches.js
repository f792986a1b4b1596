// The tree of branches as a list that can be walked with the keyboard.

import { percent, visible } from "./tokens.js";
import { textOf } from "./tree.js";

const LABEL_CHARS = 60;

export function drawBranches(tree, current, onChoose) {
  const list = document.getElementById("branch-tree");
  const roots = tree.nodes.filter((node) => node.parent === null);
  list.replaceChildren(...roots.map((node) => item(tree, node, current, onChoose)));
  if (list.contains(document.activeElement)) return;
  list.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
}

function item(tree, node, current, onChoose) {
  const element = document.createElement("li");
  const button = document.createElement("button");
  const note = document.createElement("small");
  const text = textOf(node.tokens).trim() || "(nothing)";
  button.type = "button";
  button.setAttribute("role", "treeitem");
  if (node.id === current?.id) button.setAttribute("aria-current", "true");
  note.textContent = node.forked ? `“${visible(node.forked.name)}” ${percent(node.forked.logprob)} · ` : node.tail ? "gap · " : "";
  button.append(note, text.replace(/\s+/g, " ").slice(0, LABEL_CHARS));
  button.title = text.slice(0, 500);
  button.addEventListener("click", () => onChoose(node));
  button.addEventListener("keydown", walk);
  element.setAttribute("role", "none");
  element.append(button);
  const children = tree.children(node.id);
  if (children.length) {
    const inner = document.createElement("ul");
    inner.setAttribute("role", "group");
    inner.append(...children.map((child) => item(tree, child, current, onChoose)));
    element.append(inner);
  }
  return element;
}

function walk(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const all = [...document.querySelectorAll("#branch-tree button")];
  all[all.indexOf(event.currentTarget) + step]?.focus();
  event.preventDefault();
}
