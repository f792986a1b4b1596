// The line of figures under the text, and the badge that repeats a request.

const byId = (id) => document.getElementById(id);
const ENDS = { stop: "itself", length: "length", stopped: "you", broken: "an error" };

function item(strong, rest) {
  const span = document.createElement("span");
  const bold = document.createElement("b");
  bold.textContent = strong;
  span.append(bold, ` ${rest}`);
  return span;
}

/** What is known so far, in words. */
export function showFacts(facts, { onRepeat = null } = {}) {
  const { timings, usage } = facts;
  const items = [item(facts.tokens, facts.tokens === 1 ? "token" : "tokens")];
  const speed = timings?.predicted_per_second;
  if (speed) items.push(item(speed.toFixed(speed < 10 ? 1 : 0), "tokens/s"));
  if (facts.first !== null) items.push(item(`${Math.round(facts.first)} ms`, "to the first"));
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    items.push(item(usage.prompt_tokens, `in the prompt, ${cached} cached`));
  }
  if (facts.seed) items.push(item("seed", facts.seed));
  const ends = [...new Set(facts.finish.filter(Boolean))].join(", ");
  if (ends) items.push(item("ended by", ENDS[ends] ?? ends));
  if (facts.infill) items.push(item("gap", facts.infill === "fim" ? "by the model's own tokens" : "by ranking"));
  if (facts.ignored) items.push(item("without effect:", facts.ignored));
  if (onRepeat) items.push(badge(onRepeat));
  byId("facts").replaceChildren(...items);
}

function badge(onRepeat) {
  const button = document.createElement("button");
  button.type = "button";
  button.id = "same";
  button.textContent = "Same bytes? Repeat";
  button.title = "Ask again with this seed and compare every byte";
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.textContent = "Repeating …";
    try {
      const result = await onRepeat();
      button.dataset.same = result.isSame ? "yes" : "no";
      button.textContent = result.isSame
        ? `✓ same ${result.bytes} bytes`
        : `✗ differs at token ${result.at + 1}: ${JSON.stringify(result.was ?? "")} then ${JSON.stringify(result.is ?? "")}`;
    } catch (error) {
      button.textContent = error.message;
    }
    button.disabled = false;
  });
  return button;
}

export function showProblem(message) {
  byId("problem").textContent = message;
  byId("problem").hidden = !message;
}
