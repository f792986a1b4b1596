// The text cut into tokens, as the model will read it.

import { ask } from "./api.js";
import { visible } from "./tokens.js";

const MAX_SHOWN = 2000;
const byId = (id) => document.getElementById(id);

export async function drawTokens(model, text) {
  const list = byId("token-list");
  if (!text) {
    byId("token-count").textContent = "There is no text yet.";
    return list.replaceChildren();
  }
  try {
    const { tokens, token_strs: names, max_model_len: room } = await ask("/openai/tokenize", { model, prompt: text, return_token_strs: true });
    byId("token-count").textContent = `${tokens.length} tokens of ${room} that fit · ${text.length} characters`;
    return list.replaceChildren(...names.slice(0, MAX_SHOWN).map((name, index) => {
      const [chip, id] = [document.createElement("span"), document.createElement("small")];
      id.textContent = tokens[index];
      chip.append(visible(name), id);
      return chip;
    }));
  } catch (error) {
    byId("token-count").textContent = error.message;
    return list.replaceChildren();
  }
}
