// What a person does with the text: complete, fill, stop, branch, go back. It joins the sheet, the tree and the runs.

import { Alternatives } from "./alternatives.js";
import { drawBranches } from "./branches.js";
import { appendToChoice, drawChoices } from "./choices.js";
import { showFacts, showProblem } from "./facts.js";
import { idsOf, repeat, requestOf, run } from "./runs.js";
import { Sheet } from "./sheet.js";
import { Tree, documentOf, joined, split, textOf } from "./tree.js";

const byId = (id) => document.getElementById(id);

export class Desk {
  tree = new Tree();
  current = null; // the node whose document is on the sheet
  isEdited = false; // whether somebody typed since
  isRefused = false; // whether what was asked last was refused
  #abort = null;
  #groups = 0;

  /** `fields` gives parameters and constraint, `complain` shows a refusal where it belongs. */
  constructor({ model, fields, complain, wire, onChange }) {
    Object.assign(this, { model, fields, complain, wire, onChange });
    this.sheet = new Sheet({
      onEdit: () => this.#edited(),
      onPoint: (index) => this.alternatives.point(index),
      onTap: (index) => (index >= 0 ? this.alternatives.open(index) : this.alternatives.close()),
    });
    this.alternatives = new Alternatives({ sheet: this.sheet, onBranch: (...choice) => this.branch(...choice) });
  }

  get isBusy() {
    return this.#abort !== null;
  }

  /**
   * The request behind the answer on the sheet, or the one Complete would send, and its prompt as text.
   * Throws where a field cannot be read.
   */
  get asked() {
    const node = this.isEdited || this.isRefused ? null : this.current;
    const { request, seed } = node?.facts ?? {};
    if (request && seed) return { request: { ...request, seed: Number(seed) }, text: textOf(node.base) };
    const base = this.sheet.segments;
    return { request: requestOf({ model: this.model(), base, tail: "", fields: this.fields() }), text: textOf(base) };
  }

  /** What the last answer was asked with, and the answer itself. */
  get receipt() {
    const node = this.current;
    if (!node?.facts?.seed || this.isEdited) return null;
    const nodes = this.tree.group(node);
    return {
      format: "segue-receipt-1",
      request: { ...node.facts.request, stream: false, seed: Number(node.facts.seed) },
      answer: {
        choices: nodes.map((each, index) => ({
          text: textOf(each.tokens),
          tokens: each.tokens.flatMap((token) => token.id ?? []),
          finish_reason: node.facts.finish[index] ?? null,
        })),
      },
      system_fingerprint: node.facts.fingerprint,
    };
  }

  complete() {
    return this.#start({ base: joined(this.sheet.segments), parent: this.#parent() });
  }

  /** The answer goes in at the cursor, between what is before and after. */
  fill() {
    const at = this.sheet.caret;
    const [before, after] = split(this.sheet.segments, at);
    return this.#start({ base: joined(before), tail: textOf(after), parent: this.#parent() });
  }

  /** Another one from where this one began. */
  again() {
    const node = this.current;
    if (node) return this.#start({ base: node.base, tail: node.tail, parent: node.parent, forked: node.forked });
  }

  /** Go on from a token that was not drawn. */
  async branch(index, name, logprob) {
    if (this.isBusy) return;
    try {
      const ids = await idsOf(this.model(), name);
      const token = this.sheet.segments[index];
      const other = ids.map((id, at) => ({ t: at ? "" : name, id, name, p: logprob, top: at ? undefined : token.top }));
      const base = [...this.sheet.segments.slice(0, index), ...other];
      const isOwn = !this.isEdited && this.current && index >= this.current.base.length;
      const tail = isOwn ? this.current.tail : "";
      await this.#start({ base, tail, parent: this.current?.id ?? null, forked: { name, logprob } });
    } catch (error) {
      this.#refused(error);
    }
  }

  stop() {
    this.#abort?.abort();
  }

  back() {
    const parent = this.tree.get(this.current?.parent);
    if (parent) this.choose(parent);
    else if (this.current) this.#display(this.current, [...this.current.base, ...(this.current.tail ? [{ t: this.current.tail }] : [])]);
  }

  choose(node) {
    if (this.isBusy) return;
    this.#display(node, documentOf(node));
  }

  /** Take over a shared state. */
  restore({ nodes, segments, current }) {
    this.tree = Tree.from(nodes);
    this.current = this.tree.get(current);
    this.#groups = Math.max(0, ...this.tree.nodes.map((node) => (node.group ?? 0) + 1));
    this.sheet.show(segments);
    this.isEdited = false;
    this.redraw();
  }

  redraw() {
    const node = this.current;
    drawBranches(this.tree, node, (chosen) => this.choose(chosen));
    drawChoices(node && !this.isEdited ? this.tree.group(node) : [], node, (chosen) => this.choose(chosen));
    byId("go").hidden = this.isBusy;
    byId("stop").hidden = !this.isBusy;
    byId("fill").disabled = this.isBusy;
    byId("again").disabled = this.isBusy || !node;
    byId("back").disabled = this.isBusy || !node;
    byId("go").firstChild.data = this.sheet.segments.at(-1)?.id === undefined ? "Complete " : "Continue ";
    this.onChange();
  }

  #display(node, segments) {
    this.alternatives.close();
    this.current = node;
    this.isEdited = false;
    this.isRefused = false;
    this.sheet.show([...segments]);
    this.#tell(node);
    showProblem("");
    this.redraw();
  }

  #parent() {
    return this.current?.id ?? null;
  }

  #edited() {
    this.alternatives.close();
    this.isEdited = true;
    this.isRefused = false;
    if (!this.sheet.text) this.current = null; // an empty sheet is a new beginning
    this.redraw();
  }

  async #start({ base, tail = "", parent, forked = null }) {
    if (this.isBusy) return;
    showProblem("");
    this.isRefused = false;
    this.alternatives.close();
    let body;
    try {
      body = requestOf({ model: this.model(), base, tail, fields: this.fields() });
    } catch (error) {
      return this.#refused(error);
    }
    this.#abort = new AbortController();
    const group = body.n > 1 ? this.#groups++ : null;
    const nodes = Array.from({ length: body.n ?? 1 }, () => this.tree.add({ parent, base, tail, group, forked }));
    await this.#follow(body, nodes);
  }

  async #follow(body, nodes) {
    const [first] = nodes;
    const was = { node: this.current, segments: this.sheet.segments, isEdited: this.isEdited };
    this.current = first;
    this.isEdited = false;
    this.sheet.show([...first.base, ...(first.tail ? [{ t: first.tail }] : [])]);
    if (first.tail) this.sheet.openGap(textOf(first.base).length);
    this.sheet.isBusy = true;
    this.redraw();
    this.wire.begin();
    const onToken = (choice, segment) => {
      nodes[choice].tokens.push(segment);
      appendToChoice(nodes[choice], segment);
      if (choice === 0) this.sheet.append(segment);
    };
    let facts = null;
    const onFacts = (now) => { facts = now; showFacts(now); };
    try {
      facts = await run(body, this.#abort.signal, { onToken, onFacts, wire: (text) => this.wire.hear(text) });
    } catch (error) {
      const isOwn = error.name === "AbortError";
      if (!isOwn) this.#refused(error);
      if (facts) facts.finish[0] ??= isOwn ? "stopped" : "broken";
    }
    this.#abort = null;
    this.sheet.isBusy = false;
    this.sheet.settle();
    if (facts) for (const node of nodes) node.facts = { ...facts, request: body };
    if (first.tokens.length || facts) this.#tell(first);
    else this.#forget(nodes, was);
    this.redraw();
    const isLost = document.activeElement === document.body || document.activeElement === byId("stop");
    if (isLost && matchMedia("(hover: hover)").matches) this.sheet.focus(); // by touch a keyboard would come with it
    this.sheet.placeCaret(textOf([...first.base, ...first.tokens]).length);
  }

  /** Nothing came of it: as if it had not been asked. */
  #forget(nodes, { node, segments, isEdited }) {
    this.tree.nodes.length -= nodes.length;
    this.current = node;
    this.isEdited = isEdited;
    this.sheet.show(segments);
    byId("facts").replaceChildren();
  }

  #tell(node) {
    if (!node.facts) return byId("facts").replaceChildren();
    const isWhole = node.facts.finish.every((each) => !["stopped", "broken"].includes(each));
    const answers = () => this.tree.group(node).map((each) => each.tokens);
    const { request } = node.facts;
    showFacts(node.facts, { onRepeat: isWhole && request && node.facts.seed ? () => repeat(request, node.facts, answers()) : null });
  }

  #refused(error) {
    this.isRefused = true;
    if (!this.complain(error)) showProblem(error.message);
  }
}
