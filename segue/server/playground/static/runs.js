// One completion at a time: from the request to tokens on the sheet, to facts about it, to its repetition.

import { ask, stream } from "./api.js";
import { Aligner } from "./tokens.js";
import { promptOf, textOf } from "./tree.js";

export const PATH = "/openai/v1/completions";
const NUM_TOP = 6;
// What only this page needs to see.
const REPORTS = { logprobs: NUM_TOP, return_token_ids: true, timings_per_token: true, stream_options: { include_usage: true } };

/** The request that goes on from these segments, without what only the page asks for. */
export function requestOf({ model, base, tail, fields }) {
  return { model, prompt: promptOf(base), ...(tail ? { suffix: tail } : {}), stream: true, ...fields };
}

/** Asks, and tells of each choice's tokens and end as they come. Returns what is known at the end. */
export async function run(body, signal, { onToken = () => {}, onFacts = () => {}, wire = () => {} }) {
  const begun = performance.now();
  const facts = { seed: null, first: null, usage: null, timings: null, finish: [], fingerprint: null, tokens: 0, ignored: "" };
  const aligners = new Map();
  const heard = (choice, segments) => segments.forEach((segment) => onToken(choice, segment));
  try {
    for await (const part of stream(PATH, { ...body, ...REPORTS }, signal, wire)) {
      if (part.head) {
        facts.seed = part.head.get("x-segue-seed");
        facts.ignored = part.head.get("x-segue-ignored") ?? "";
        facts.infill = part.head.get("x-segue-infill");
        continue;
      }
      facts.usage = part.usage ?? facts.usage;
      facts.timings = part.timings ?? facts.timings;
      facts.fingerprint = part.system_fingerprint;
      for (const choice of part.choices) {
        if (!aligners.has(choice.index)) aligners.set(choice.index, new Aligner());
        const aligner = aligners.get(choice.index);
        const tokens = tokensOf(choice);
        facts.tokens += tokens.length;
        if (tokens.length && facts.first === null) facts.first = performance.now() - begun;
        heard(choice.index, aligner.push(choice.text, tokens));
        if (choice.finish_reason) {
          heard(choice.index, aligner.finish());
          facts.finish[choice.index] = choice.finish_reason;
        }
      }
      onFacts(facts);
    }
  } finally {
    facts.elapsed = performance.now() - begun;
    for (const [index, aligner] of aligners) if (!facts.finish[index]) heard(index, aligner.finish());
  }
  return facts;
}

function tokensOf({ logprobs, token_ids: ids }) {
  return (logprobs?.tokens ?? []).map((name, index) => ({
    name,
    id: ids?.[index],
    p: logprobs.token_logprobs[index],
    top: Object.entries(logprobs.top_logprobs[index] ?? {}).sort((one, other) => other[1] - one[1]),
  }));
}

/** The ids of a text that goes on a prompt: one, where the text is a token. */
export async function idsOf(model, text) {
  const { tokens } = await ask("/openai/tokenize", { model, prompt: text, add_special_tokens: false });
  return tokens;
}

/** The same request with the seed that was used: whether every byte and token is the same. */
export async function repeat(body, facts, answers, signal) {
  const again = answers.map(() => []);
  await run({ ...body, seed: Number(facts.seed) }, signal, { onToken: (choice, segment) => again[choice].push(segment) });
  for (const [choice, segments] of answers.entries()) {
    const other = again[choice];
    const length = Math.max(segments.length, other.length);
    for (let at = 0; at < length; at += 1) {
      const [was, is] = [segments[at], other[at]];
      if (was?.id !== is?.id || was?.t !== is?.t) return { isSame: false, at, was: was?.t, is: is?.t };
    }
  }
  const bytes = answers.map((segments) => new TextEncoder().encode(textOf(segments)).length);
  return { isSame: true, bytes: bytes.reduce((sum, each) => sum + each, 0) };
}
