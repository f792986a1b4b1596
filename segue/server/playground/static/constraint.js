// What the answer must match. Complaints are shown at the line they are about.

const EXAMPLES = {
  json_schema: JSON.stringify({
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 0, maximum: 120 } },
    required: ["name", "age"],
    additionalProperties: false,
  }, null, 2),
  guided_regex: "[A-Z][a-z]+ (is|was) [a-z ]+\\.",
  grammar: 'root ::= "The answer is " ("yes" | "no") "."',
  guided_choice: "yes\nno\nit depends",
};
const NAMES = new Set(Object.keys(EXAMPLES));
const byId = (id) => document.getElementById(id);

export class Constraint {
  #kind = byId("constraint-kind");
  #text = byId("constraint-text");
  #lines = byId("constraint-lines");
  #problem = byId("constraint-problem");

  constructor(onChange) {
    this.onChange = onChange;
    this.#kind.addEventListener("change", () => this.#changed());
    this.#text.addEventListener("input", () => this.#changed());
    this.#text.addEventListener("scroll", () => { this.#lines.scrollTop = this.#text.scrollTop; });
    byId("constraint-example").addEventListener("click", () => {
      this.#text.value = EXAMPLES[this.#kind.value];
      this.#changed();
    });
  }

  /** The field of the request, or nothing. Throws where the text cannot be sent. */
  get values() {
    const [kind, text] = [this.#kind.value, this.#text.value];
    if (!kind || !text.trim()) return {};
    if (kind === "guided_choice") return { [kind]: text.split("\n").filter(Boolean) };
    if (kind === "json_schema") return { [kind]: this.#schema(text) };
    return { [kind]: text };
  }

  get state() {
    return { kind: this.#kind.value, text: this.#text.value };
  }

  restore({ kind = "", text = "" } = {}) {
    this.#kind.value = kind;
    this.#text.value = text;
    this.#changed();
  }

  /** Shows a complaint about this field; false where it is about another. */
  complain(param, message) {
    if (!NAMES.has(param)) return false;
    const place = /line (\d+)/.exec(message);
    this.#show(message, place ? Number(place[1]) : 0);
    return true;
  }

  clearProblem() {
    this.#problem.hidden = true;
    this.#text.removeAttribute("aria-invalid");
    this.#number(0);
  }

  #changed() {
    byId("constraint-editor").hidden = !this.#kind.value;
    byId("constraint-example").hidden = !this.#kind.value;
    this.#text.placeholder = EXAMPLES[this.#kind.value] ?? "";
    this.clearProblem();
    if (this.#kind.value === "json_schema" && this.#text.value.trim()) {
      try {
        this.#schema(this.#text.value);
      } catch (error) {
        this.complain(error.param, error.message);
      }
    }
    this.onChange();
  }

  #schema(text) {
    try {
      return JSON.parse(text);
    } catch (error) {
      const at = /position (\d+)/.exec(error.message);
      const line = at ? text.slice(0, Number(at[1])).split("\n").length : /line (\d+)/.exec(error.message)?.[1];
      const message = error.message.replace(/ \(line.*$/, "").replace(/ at position \d+/, "").replace(/ in JSON$/, "");
      const where = line ? `line ${line}: ` : "";
      throw Object.assign(new Error(`This is not JSON: ${where}${message}`), { param: "json_schema" });
    }
  }

  #show(message, line) {
    this.#problem.textContent = message;
    this.#problem.hidden = false;
    this.#text.setAttribute("aria-invalid", "true");
    this.#text.setAttribute("aria-errormessage", "constraint-problem");
    this.#number(line);
  }

  #number(wrong) {
    const count = this.#text.value.split("\n").length;
    this.#lines.replaceChildren(...Array.from({ length: count }, (_, index) => {
      const line = document.createElement("div");
      line.textContent = index + 1;
      if (index + 1 === wrong) line.className = "at";
      return line;
    }));
  }
}
