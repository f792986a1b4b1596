// Wiring: tabs, keys, theme and dialogs around the desk.

import { ask, hasKey, setKey } from "./api.js";
import { Constraint } from "./constraint.js";
import { Desk } from "./desk.js";
import { showProblem } from "./facts.js";
import { Models } from "./models.js";
import { Parameters } from "./parameters.js";
import { drawTokens } from "./prompt_tokens.js";
import { Share } from "./share.js";
import { Wire } from "./wire.js";

const byId = (id) => document.getElementById(id);
const tabs = [...document.querySelectorAll("[role=tab]")];
const SOON_MS = 250;
const KEPT = "segue-tab"; // in this tab only
const FIRST_VALUES = { max_tokens: "64" };

let timer = 0;
let isStarted = false;
let isDismissed = false; // the dialog for the key was closed without one: what looks at models asks no more
const parameters = new Parameters(changed);
const constraint = new Constraint(changed);
const models = new Models({ onKeys: () => isDismissed || keyRefused(), onReady: changed });
const wire = new Wire(() => desk.asked);
const desk = new Desk({
  model: () => models.name,
  fields: () => ({ ...parameters.values, ...constraint.values }),
  complain,
  wire,
  onChange: changed,
});

function state() {
  return {
    nodes: desk.tree.nodes,
    segments: desk.sheet.segments,
    current: desk.current?.id ?? null,
    parameters: parameters.texts,
    constraint: constraint.state,
  };
}

function restore(shared) {
  parameters.restore(shared.parameters ?? {});
  constraint.restore(shared.constraint ?? {});
  desk.restore(shared);
}

/** Something that tabs show may be different now. */
function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (desk.isBusy) return;
    refreshTab();
    if (isStarted) keep();
  }, SOON_MS);
}

function keep() {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(state()));
  } catch {
    // Too much to keep: a reload will begin anew.
  }
}

function refreshTab() {
  if (wire.isShown) {
    wire.refresh();
    wire.showRaw();
  }
  if (!byId("tokens").hidden) drawTokens(models.name, desk.sheet.text);
  if (!byId("models").hidden) models.refresh();
}

/** Shows a refusal at the field it is about. False: it belongs to none. */
function complain(error) {
  if (error.status === 401) {
    keyRefused();
    return true;
  }
  if (constraint.complain(error.param, error.message)) {
    open("constraint");
    return false; // and under the text too, where the eyes are
  }
  if (parameters.complain(error.param, error.message)) open("parameters");
  return false;
}

// --- tabs ---------------------------------------------------------------------------------------

function open(name, { focus = false } = {}) {
  for (const tab of tabs) {
    const isOpen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", isOpen);
    tab.tabIndex = isOpen ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isOpen;
    if (isOpen && focus) tab.focus();
  }
  refreshTab();
}

tabs.forEach((tab, index) => {
  tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) open(tabs.at((index + step) % tabs.length).getAttribute("aria-controls"), { focus: true });
  });
});

// --- keys ---------------------------------------------------------------------------------------

const isCommand = (event) => event.ctrlKey || event.metaKey;
// [whether these keys, what they do]
const SHORTCUTS = [
  [(event) => event.key === "Enter" && isCommand(event) && event.shiftKey, () => desk.again()],
  [(event) => event.key === "Enter" && isCommand(event), () => desk.complete()],
  [(event) => event.key === "Enter" && event.altKey, () => desk.fill()],
  [(event) => event.key === "ArrowDown" && event.altKey, openAlternatives],
  [(event) => event.key === "ArrowLeft" && event.altKey, () => !desk.isBusy && desk.back()],
  [(event) => event.altKey && tabs[Number(event.key) - 1], (event) => tabs[Number(event.key) - 1].click()],
  [(event) => event.key === "Escape" && (desk.isBusy || desk.alternatives.isOpen), escape],
];

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  const found = SHORTCUTS.find(([matches]) => matches(event));
  if (!found) return;
  event.preventDefault();
  found[1](event);
});

function escape() {
  if (desk.alternatives.isOpen) desk.alternatives.close({ refocus: true });
  else desk.stop();
}

function openAlternatives() {
  const { sheet, alternatives } = desk;
  const at = sheet.tokenAt(Math.max(0, sheet.caret - 1));
  const index = at >= 0 ? at : sheet.neighbour(sheet.segments.length, -1);
  if (index >= 0) alternatives.open(index, { focus: true });
}

const CLICKS = {
  go: () => desk.complete(),
  stop: () => desk.stop(),
  fill: () => desk.fill(),
  again: () => desk.again(),
  back: () => desk.back(),
  "help-button": () => byId("help").showModal(),
  "key-button": askForKey,
  theme: switchTheme,
  face: () => byId("face").setAttribute("aria-pressed", byId("sheet").classList.toggle("mono")),
};
for (const [id, act] of Object.entries(CLICKS)) byId(id).addEventListener("click", () => act());

// --- theme and key ------------------------------------------------------------------------------

function switchTheme() {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("segue-theme", document.documentElement.dataset.theme);
}

function askForKey() {
  if (byId("key").open) return;
  byId("key-problem").hidden = true;
  byId("key").returnValue = "";
  byId("key").showModal();
}

function keyRefused() {
  byId("key-button").hidden = false;
  askForKey();
  byId("key-problem").hidden = !hasKey();
}

byId("key").addEventListener("close", () => {
  isDismissed = byId("key").returnValue !== "ok";
  const typed = byId("key-input").value.trim();
  byId("key-input").value = "";
  if (isDismissed) return;
  setKey(typed);
  models.refresh();
});

// --- start --------------------------------------------------------------------------------------

async function start() {
  const theme = localStorage.getItem("segue-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  const isMac = /Mac|iPhone|iPad/.test(navigator.platform);
  if (isMac) byId("go").querySelector("kbd").textContent = "⌘ ↵";
  const guide = await ask("/play/guide.json");
  parameters.fill(guide.parameters);
  wire.fill(guide);
  new Share({ state, restore, receipt: () => desk.receipt });
  let kept = null;
  try {
    kept = (await Share.fromLink()) ?? JSON.parse(sessionStorage.getItem(KEPT));
  } catch {
    showProblem("The link cannot be read: it may have been cut.");
  }
  if (kept) restore(kept);
  else parameters.restore(FIRST_VALUES);
  await models.refresh();
  desk.redraw();
  isStarted = true;
  document.documentElement.dataset.ready = "true";
}

start().catch((error) => showProblem(error.message));
