// node clients.mjs URL MODEL: each client completes, streamed and not, and must say the same as plain fetch.
// Prints a line of JSON for each: {client, version, called, ok, problem}.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Ollama as LangchainOllama } from "@langchain/ollama";
import { generateText, streamText } from "ai";
import { readFileSync } from "node:fs";
import { Ollama } from "ollama";
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const prompt = "The sea";
const only = { max_tokens: 8, temperature: 0, seed: 1 };

async function wanted(path, body) {
  const answer = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return answer.json();
}

const text = (await wanted("/v1/completions", { model, prompt, ...only })).choices[0].text;
const options = { num_predict: 8, temperature: 0, seed: 1 };
const raw = (await wanted("/api/generate", { model, prompt, raw: true, stream: false, options })).response;
const templated = (await wanted("/api/generate", { model, prompt, stream: false, options })).response;

function same(said, expected = text) {
  if (said !== expected) throw new Error(`${JSON.stringify(said)} instead of ${JSON.stringify(expected)}`);
}

async function gather(stream, take) {
  let said = "";
  for await (const part of stream) said += take(part);
  return said;
}

const CLIENTS = {
  async openai() {
    for (const base of ["/v1", "/openai/v1", "/vllm/v1", "/mistralrs/v1", "/llamastack/v1"]) {
      const client = new OpenAI({ baseURL: url + base, apiKey: "none" });
      same((await client.completions.create({ model, prompt, ...only })).choices[0].text);
      const stream = await client.completions.create({ model, prompt, ...only, stream: true });
      same(await gather(stream, (part) => part.choices[0]?.text ?? ""));
    }
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
    if (!(await client.models.list()).data.length) throw new Error("no models");
    return "completions.create, streamed and not, at the root, /openai, /vllm, /mistralrs, /llamastack; models.list";
  },
  async ollama() {
    for (const host of [url, `${url}/ollama`]) {
      const client = new Ollama({ host });
      same((await client.generate({ model, prompt, raw: true, options })).response, raw);
      const stream = await client.generate({ model, prompt, raw: true, options, stream: true });
      same(await gather(stream, (part) => part.response), raw);
      if (!(await client.list()).models.length) throw new Error("no models");
      await client.show({ model });
      await client.ps();
    }
    return "generate, streamed and not, list, show, ps; at the root and at /ollama";
  },
  async "@ai-sdk/openai-compatible"() {
    for (const base of ["/v1", "/openai/v1", "/vllm/v1"]) {
      const provider = createOpenAICompatible({ name: "segue", baseURL: url + base });
      const asked = { model: provider.completionModel(model), prompt, maxOutputTokens: 8, temperature: 0, seed: 1 };
      const { text: said, usage } = await generateText(asked);
      if (!said || usage.outputTokens !== 8) throw new Error(`${said} ${JSON.stringify(usage)}`);
      same(await gather(streamText(asked).textStream, (part) => part), said);
    }
    return "completionModel through generateText and streamText";
  },
  async "@langchain/ollama"() {
    for (const baseUrl of [url, `${url}/ollama`]) {
      const llm = new LangchainOllama({ model, baseUrl, temperature: 0, numPredict: 8, seed: 1 });
      same(await llm.invoke(prompt), templated);
      same(await gather(await llm.stream(prompt), (part) => part), templated);
    }
    return "Ollama.invoke and .stream";
  },
};

let isFine = true;
for (const [client, call] of Object.entries(CLIENTS)) {
  const version = JSON.parse(readFileSync(`node_modules/${client}/package.json`)).version;
  let result = { client: `npm ${client}`, version };
  try {
    result = { ...result, ok: true, called: await call() };
  } catch (error) {
    isFine = false;
    result = { ...result, ok: false, problem: String(error.stack ?? error).slice(0, 600) };
  }
  console.log(JSON.stringify(result));
}
process.exit(isFine ? 0 : 1);
