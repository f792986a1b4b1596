// Tokens as the wire names them: their bytes, their part of the text, their tint.

const encoder = new TextEncoder();

/** The bytes of a token. Half a character comes as "bytes:\xe2\x80". */
export function bytesOf(name) {
  if (!name.startsWith("bytes:")) return encoder.encode(name);
  const bytes = [];
  for (let at = 6; at < name.length; ) {
    const isHex = name.startsWith("\\x", at);
    bytes.push(isHex ? parseInt(name.slice(at + 2, at + 4), 16) : name.charCodeAt(at));
    at += isHex ? 4 : 1;
  }
  return new Uint8Array(bytes);
}

/** Deals a text out to its tokens. Text may lag behind (a stop string held back); control tokens have none. */
export class Aligner {
  #decoder = new TextDecoder("utf-8");
  #text = "";
  #waiting = [];

  /** Takes text and tokens ({name, …}) as they come; returns the tokens whose text is known, with `t`. */
  push(text, tokens) {
    this.#text += text;
    this.#waiting.push(...tokens);
    const ready = [];
    while (this.#waiting.length) {
      const token = this.#waiting[0];
      token.own ??= this.#decoder.decode(bytesOf(token.name), { stream: true });
      const fits = this.#text.startsWith(token.own);
      if (!fits && token.own.startsWith(this.#text)) break;
      ready.push(this.#take(token, fits ? token.own : ""));
    }
    return ready;
  }

  /** At the end: what is left, the last token having all text that remains. */
  finish() {
    const ready = this.#waiting.map((token, index, all) =>
      ({ ...this.#bare(token), t: index === all.length - 1 ? this.#text : "" }));
    const rest = ready.length ? "" : this.#text;
    this.#waiting = [];
    this.#text = "";
    return rest ? [...ready, { t: rest }] : ready;
  }

  #take(token, text) {
    this.#waiting.shift();
    this.#text = this.#text.slice(text.length);
    return { ...this.#bare(token), t: text };
  }

  #bare({ own, ...token }) {
    return token;
  }
}

/** One of nine tints: 0 for a sure token, 8 for one in thousands. */
export function shade(logprob) {
  const bits = -logprob / Math.LN2;
  return Math.max(0, Math.min(8, Math.round(bits - 0.2)));
}

export function percent(logprob) {
  const share = 100 * Math.exp(logprob);
  return share >= 9.95 ? `${share.toFixed(0)} %` : share >= 0.095 ? `${share.toFixed(1)} %` : "< 0.1 %";
}

/** A text with its blanks made visible. */
export function visible(text) {
  return text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ | $/g, "␣") || "∅";
}
