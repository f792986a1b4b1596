"""A request as code: for curl, Python and JavaScript. Tests run each snippet."""

import json
from typing import Any, Literal, get_args

from segue.server.playground.translate import Translation

Language = Literal["curl", "python", "javascript"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

# What the package `openai` takes by name; the rest goes into extra_body.
_OPENAI_NAMES = frozenset(
    {
        "model",
        "prompt",
        "best_of",
        "echo",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "n",
        "presence_penalty",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "suffix",
        "temperature",
        "top_p",
        "user",
    }
)
# The same for the package `ollama`.
_OLLAMA_NAMES = frozenset(
    {
        "model",
        "prompt",
        "suffix",
        "system",
        "template",
        "context",
        "stream",
        "logprobs",
        "top_logprobs",
        "raw",
        "format",
        "images",
        "options",
        "keep_alive",
        "think",
    }
)


def snippet(translation: Translation, language: Language, url: str, needs_key: bool) -> str:
    """`url` is this server's own address, without a slash at its end."""
    return _WRITERS[language](translation, url, needs_key)


def _pretty(body: dict[str, Any]) -> str:
    """JSON with one field per line; nested values stay on the line of their field."""
    lines = (
        f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in body.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}"


def _curl(translation: Translation, url: str, needs_key: bool) -> str:
    body = _pretty(translation.body).replace("'", "'\\''")
    key = " \\\n  -H 'authorization: Bearer '\"$SEGUE_API_KEY\"" if needs_key else ""
    quiet = "-sN" if translation.body.get("stream") else "-s"
    return (
        f"curl {quiet} {url}{translation.path} \\\n  -H 'content-type: application/json'{key} \\\n"
        f"  -d '{body}'\n"
    )


# --- Python --------------------------------------------------------------------------------------


def _python(translation: Translation, url: str, needs_key: bool) -> str:
    if translation.path.endswith("/completions"):
        return _openai_package(translation, url, needs_key)
    if translation.dialect == "ollama" and translation.body.keys() <= _OLLAMA_NAMES:
        return _ollama_package(translation, url, needs_key)
    return _plain_python(translation, url, needs_key)


def _imports(needs_key: bool, others: str) -> str:
    return "import os\n" + others if needs_key else others


def _arguments(body: dict[str, Any], names: frozenset[str]) -> str:
    known = [f"    {name}={value!r},\n" for name, value in body.items() if name in names]
    rest = {name: value for name, value in body.items() if name not in names}
    return "".join(known) + (f"    extra_body={rest!r},\n" if rest else "")


def _openai_package(translation: Translation, url: str, needs_key: bool) -> str:
    base = url + translation.path.removesuffix("/completions")
    key = 'os.environ["SEGUE_API_KEY"]' if needs_key else '"none"'
    call = f"client.completions.create(\n{_arguments(translation.body, _OPENAI_NAMES)})"
    return (
        _imports(needs_key, "from openai import OpenAI\n\n")
        + f'client = OpenAI(base_url="{base}", api_key={key})\n'
        + _printed(call, translation, "for choice in part.choices:", "choice.text")
    )


def _ollama_package(translation: Translation, url: str, needs_key: bool) -> str:
    key = ', headers={"authorization": "Bearer " + os.environ["SEGUE_API_KEY"]}'
    call = f"client.generate(\n{_arguments(translation.body, _OLLAMA_NAMES)})"
    return (
        _imports(needs_key, "from ollama import Client\n\n")
        + f'client = Client("{url}/ollama"{key if needs_key else ""})\n'
        + _printed(call, translation, "", "part.response")
    )


def _printed(call: str, translation: Translation, loop: str, text: str) -> str:
    """The call, and code that prints its texts."""
    if translation.body.get("stream"):
        head, indent = f"for part in {call}:\n", "    "
    else:
        head, indent = f"part = {call}\n", ""
    if loop:
        head, indent = head + f"{indent}{loop}\n", indent + "    "
    return head + f'{indent}print({text}, end="", flush=True)\n'


def _plain_python(translation: Translation, url: str, needs_key: bool) -> str:
    key = ', "authorization": "Bearer " + os.environ["SEGUE_API_KEY"]' if needs_key else ""
    is_lines = translation.dialect == "ollama"  # else events
    name, start = ("response", "{") if is_lines else ("content", "data: ")
    read = f'    print(json.load(answer)["{name}"], end="")\n'
    if translation.body.get("stream"):
        read = (
            "    for line in answer:\n"
            f'        if line.startswith(b"{start}"):\n'
            f'            print(json.loads(line[{0 if is_lines else len(start)}:])["{name}"], end="", flush=True)\n'
        )
    if translation.body.get("n_cmpl", 1) > 1 and not translation.body.get("stream"):
        read = '    for part in json.load(answer):\n        print(part["content"], end="")\n'
    return (
        _imports(needs_key, "import json\nfrom urllib.request import Request, urlopen\n\n")
        + f"body = {translation.body!r}\n"
        f'headers = {{"content-type": "application/json"{key}}}\n'
        f'request = Request("{url}{translation.path}", json.dumps(body).encode(), headers)\n'
        f"with urlopen(request) as answer:\n{read}"
    )


# --- JavaScript ----------------------------------------------------------------------------------

_READ_STREAM = """\
let rest = "";
const decoder = new TextDecoder();
for await (const bytes of answer.body) {
  const lines = (rest + decoder.decode(bytes, { stream: true })).split("\\n");
  rest = lines.pop();
  for (const line of lines) {
    const data = line.replace(/^data: /, "");
    if (data.startsWith("{")) write(JSON.parse(data));
  }
}
"""
_READ_WHOLE = "write(await answer.json());\n"
_WRITE = """\
const write = (part) => {
  for (const each of part.choices ?? [part].flat()) {
    const text = each.text ?? each.content ?? each.response ?? "";
    process.stdout.write(text);
  }
};
"""


def _javascript(translation: Translation, url: str, needs_key: bool) -> str:
    body = _pretty(translation.body).replace("\n", "\n  ")
    key = ", authorization: `Bearer ${process.env.SEGUE_API_KEY}`" if needs_key else ""
    read = _READ_STREAM if translation.body.get("stream") else _READ_WHOLE
    return (
        f'const answer = await fetch("{url}{translation.path}", {{\n'
        f'  method: "POST",\n'
        f'  headers: {{ "content-type": "application/json"{key} }},\n'
        f"  body: JSON.stringify({body}),\n}});\n{_WRITE}{read}"
    )


_WRITERS = {"curl": _curl, "python": _python, "javascript": _javascript}
