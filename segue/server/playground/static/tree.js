// The tree of branches: pure data. A run of text is a list of segments: {t} is what somebody wrote,
// {t, id, p, top} a token with its log-probability and its alternatives [[text, logprob], …].

export class Tree {
  nodes = [];

  /** A completion that goes on from `base` and stands before `tail`. */
  add({ parent = null, base, tail = "", group = null, forked = null }) {
    const node = { id: this.nodes.length, parent, base, tokens: [], tail, group, forked, facts: null };
    this.nodes.push(node);
    return node;
  }

  get(id) {
    return this.nodes[id] ?? null;
  }

  children(id) {
    return this.nodes.filter((node) => node.parent === id);
  }

  group(node) {
    return node.group === null ? [node] : this.nodes.filter((other) => other.group === node.group);
  }

  toJSON() {
    return this.nodes;
  }

  static from(nodes) {
    const tree = new Tree();
    tree.nodes = nodes.map((node, id) => ({ ...node, id }));
    return tree;
  }
}

export const documentOf = (node) => [...node.base, ...node.tokens, ...(node.tail ? [{ t: node.tail }] : [])];
export const textOf = (segments) => segments.map((segment) => segment.t).join("");

/** Neighbouring plain texts as one, empty ones gone. */
export function joined(segments) {
  const result = [];
  for (const segment of segments) {
    const last = result.at(-1);
    if (segment.id === undefined && last && last.id === undefined) result[result.length - 1] = { t: last.t + segment.t };
    else if (segment.id !== undefined || segment.t) result.push(segment);
  }
  return result;
}

/** A prompt for the wire: text as text, tokens as their ids, so that nothing is cut anew. */
export function promptOf(segments) {
  const parts = joined(segments).map((segment) => segment.id ?? segment.t);
  return parts.every((part) => typeof part === "string") ? parts.join("") : parts;
}

/** Both sides of a place in the text. A token that is cut becomes text. */
export function split(segments, at) {
  const before = [];
  const after = [];
  let start = 0;
  for (const segment of segments) {
    const end = start + segment.t.length;
    if (end <= at) before.push(segment);
    else if (start >= at) after.push(segment);
    else {
      before.push({ t: segment.t.slice(0, at - start) });
      after.push({ t: segment.t.slice(at - start) });
    }
    start = end;
  }
  return [before, after];
}

/** The segments after somebody typed: what comes before the change keeps its tokens, the rest is text. */
export function edited(segments, now) {
  const was = textOf(segments);
  let same = 0;
  while (same < was.length && same < now.length && was[same] === now[same]) same += 1;
  const [before] = split(segments, same);
  return joined([...before, { t: now.slice(textOf(before).length) }]);
}
