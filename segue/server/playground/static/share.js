// All of it as a link or a file. A link holds everything behind its #, which browsers do not send.

const byId = (id) => document.getElementById(id);
const FORMAT = "segue-branches-1";

async function through(transform, bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function packed(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const small = await through(new CompressionStream("deflate-raw"), bytes);
  let text = "";
  for (let at = 0; at < small.length; at += 0x8000) text += String.fromCharCode(...small.subarray(at, at + 0x8000));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export async function unpacked(text) {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await through(new DecompressionStream("deflate-raw"), Uint8Array.from(raw, (char) => char.charCodeAt(0)));
  return checked(JSON.parse(new TextDecoder().decode(bytes)));
}

/** The state a file or link holds. Whatever else it is, it is data: nothing in it is ever run. */
export function checked(state) {
  const isList = Array.isArray(state?.nodes) && Array.isArray(state?.segments);
  if (state?.format !== FORMAT || !isList) throw new Error("This is not a file of this page.");
  return state;
}

function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export class Share {
  /** `state` gives what is to be shared, `restore` takes it, `receipt` gives one or null. */
  constructor({ state, restore, receipt }) {
    const note = byId("share-note");
    const whole = () => ({ format: FORMAT, ...state() });
    byId("share-button").addEventListener("click", () => {
      note.textContent = "";
      byId("share-receipt").disabled = !receipt();
      byId("share").showModal();
    });
    byId("share-link").addEventListener("click", async () => {
      history.replaceState(null, "", `#${await packed(whole())}`);
      try {
        await navigator.clipboard.writeText(location.href);
        note.textContent = `Copied: ${location.href.length} characters.`;
      } catch {
        note.textContent = "The address of this page is the link now: copy it from there.";
      }
    });
    byId("share-save").addEventListener("click", () => save("segue-branches.json", whole()));
    byId("share-receipt").addEventListener("click", () => save("segue-receipt.json", receipt()));
    byId("share-open").addEventListener("click", () => byId("share-file").click());
    byId("share-file").addEventListener("change", async (event) => {
      try {
        restore(checked(JSON.parse(await event.target.files[0].text())));
        byId("share").close();
      } catch (error) {
        note.textContent = error.message;
      }
      event.target.value = "";
    });
  }

  static async fromLink() {
    return location.hash.length > 1 ? unpacked(location.hash.slice(1)) : null;
  }
}
