// Every parameter the server takes, in the words of its own tables. An empty field is the default.

const byId = (id) => document.getElementById(id);

export class Parameters {
  #rows = new Map();

  constructor(onChange) {
    this.onChange = onChange;
    byId("parameter-filter").addEventListener("input", (event) => this.#filter(event.target.value));
    byId("parameters-reset").addEventListener("click", () => this.restore({}));
  }

  fill(parameters) {
    const more = document.createElement("details");
    more.className = "more";
    const summary = document.createElement("summary");
    summary.textContent = `${parameters.filter((each) => !each.first).length} more`;
    more.append(summary);
    for (const parameter of parameters) {
      const row = this.#row(parameter);
      this.#rows.set(parameter.name, { ...row, parameter });
      (parameter.first ? byId("parameter-rows") : more).append(row.element);
    }
    byId("parameter-rows").append(more);
  }

  /** The fields that are set, as the wire takes them. Throws where one cannot be read. */
  get values() {
    const body = {};
    for (const [name, { input, parameter }] of this.#rows) {
      if (isSet(input)) body[name] = read(input, parameter, name);
    }
    return body;
  }

  /** What is in the fields, as text. */
  get texts() {
    return Object.fromEntries([...this.#rows].filter(([, row]) => row.input.value).map(([name, row]) => [name, row.input.value]));
  }

  restore(texts) {
    for (const [name, { input, element }] of this.#rows) {
      input.value = texts[name] ?? "";
      element.classList.toggle("set", isSet(input));
    }
    this.clearProblems();
    this.onChange();
  }

  /** Shows a complaint at the field it is about; false where there is no such field here. */
  complain(name, message) {
    const row = this.#rows.get(name);
    if (!row) return false;
    this.clearProblems();
    const note = document.createElement("p");
    note.className = "wrong";
    note.textContent = message;
    row.input.setAttribute("aria-invalid", "true");
    row.element.append(note);
    row.element.closest("details")?.setAttribute("open", "");
    row.element.scrollIntoView({ block: "nearest" });
    return true;
  }

  clearProblems() {
    for (const { element, input } of this.#rows.values()) {
      element.querySelector(".wrong")?.remove();
      input.removeAttribute("aria-invalid");
    }
  }

  #row(parameter) {
    const element = document.createElement("div");
    const label = document.createElement("label");
    const doc = document.createElement("p");
    const input = control(parameter);
    element.className = "parameter";
    input.id = `parameter-${parameter.name.replaceAll(".", "-")}`;
    label.htmlFor = input.id;
    label.textContent = parameter.name;
    label.title = parameter.type;
    doc.textContent = parameter.doc;
    input.addEventListener("input", () => {
      element.classList.toggle("set", isSet(input));
      element.querySelector(".wrong")?.remove();
      input.removeAttribute("aria-invalid");
      this.onChange();
    });
    element.append(label, doc, input);
    return { element, input };
  }

  #filter(text) {
    const wanted = text.toLowerCase();
    for (const { element, parameter } of this.#rows.values()) {
      element.hidden = !`${parameter.name} ${parameter.doc}`.toLowerCase().includes(wanted);
    }
    document.querySelector("details.more").open = Boolean(wanted);
  }
}

function control({ schema, type, default: usual, name }) {
  const options = schema.type === "boolean" ? [true, false] : schema.enum;
  if (options) {
    const select = document.createElement("select");
    const words = ["", ...options.map((each) => JSON.stringify(each))];
    select.append(...words.map((word) => new Option(word || `default${usual ? `: ${usual}` : ""}`, word)));
    return select;
  }
  const input = document.createElement("input");
  const isNumber = schema.type === "integer" || schema.type === "number";
  input.type = isNumber ? "number" : "text";
  if (isNumber) {
    input.step = schema.type === "integer" ? 1 : "any";
    input.inputMode = schema.type === "integer" ? "numeric" : "decimal";
  }
  input.placeholder = usual && usual !== "null" ? usual : name === "seed" ? "drawn" : isNumber ? "" : type;
  input.autocomplete = "off";
  return input;
}

/** A field for numbers says that it is empty where what it shows is none, such as "1e" or, with a point as here, "0,7". */
const isSet = (input) => input.value !== "" || input.validity.badInput;

const wrong = (name, words) => Object.assign(new Error(`${name} ${words}`), { param: name });

function read(input, { schema, type }, name) {
  const text = input.value;
  if (schema.type === "string") return text;
  if (input.validity.badInput) throw wrong(name, schema.type === "integer" ? "must be a whole number" : "must be a number such as 0.5");
  let value;
  try {
    value = input.type === "number" ? Number(text) : JSON.parse(text); // .5 is a number, and no JSON
  } catch {
    if (type.includes("string")) return text.replaceAll("\\n", "\n"); // a bare text where others are possible
    throw wrong(name, `must be ${type}, written as JSON`);
  }
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw wrong(name, "is larger than a browser can count exactly");
  return value;
}
