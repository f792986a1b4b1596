// What this page asks of the server. The key, if there is one, lives in this module and nowhere else.

let key = "";

export const setKey = (text) => { key = text; };
export const hasKey = () => key !== "";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.param = detail?.param ?? null;
  }
}

function headers(body) {
  return {
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(key ? { authorization: `Bearer ${key}` } : {}),
  };
}

/** Browsers have words of their own for a connection that fails ("network error", "Load failed"). */
function fail(error, message) {
  throw error.name === "AbortError" ? error : new Refused(0, { message });
}

async function send(path, body, signal) {
  const method = body === undefined ? "GET" : "POST";
  const content = body === undefined ? undefined : JSON.stringify(body);
  const asked = fetch(path, { method, headers: headers(body), body: content, signal });
  return asked.catch((error) => fail(error, "The server cannot be reached."));
}

async function refusal(answer) {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text);
    return new Refused(answer.status, typeof error === "string" ? { message: error } : error);
  } catch {
    return new Refused(answer.status, { message: text.slice(0, 500) });
  }
}

/** JSON of a whole answer. */
export async function ask(path, body, signal) {
  const answer = await send(path, body, signal);
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

/** A streamed completion: its objects one by one. `wire` hears the head and every piece of text as it came. */
export async function* stream(path, body, signal, wire = () => {}) {
  const answer = await send(path, body, signal);
  wire(`HTTP ${answer.status}\n${[...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n`);
  if (!answer.ok) {
    const error = await refusal(answer.clone());
    wire(await answer.text());
    throw error;
  }
  yield { head: answer.headers };
  const decoder = new TextDecoder();
  let rest = "";
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read().catch((error) => fail(error, "The connection to the server was lost."));
    const text = decoder.decode(value ?? new Uint8Array(), { stream: !done });
    wire(text);
    const lines = (rest + text).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data: ") ? line.slice(6) : line;
      if (!data.startsWith("{")) continue;
      const part = JSON.parse(data);
      if (part.error) throw new Refused(200, typeof part.error === "string" ? { message: part.error } : part.error);
      yield part;
    }
    if (done) return;
  }
}
