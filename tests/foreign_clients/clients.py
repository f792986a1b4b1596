"""`python clients.py URL MODEL`, in an environment that has these clients: prints a line of JSON for each.

Imports nothing of Segue: it stands where a stranger's program would.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

URL, MODEL = sys.argv[1:3]
PROMPT = "The sea"


def wanted(path: str, body: dict[str, Any]) -> Any:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def expected(max_tokens: int = 8) -> str:
    body = {"model": MODEL, "prompt": PROMPT, "max_tokens": max_tokens, "temperature": 0}
    return str(wanted("/v1/completions", body)["choices"][0]["text"])


def same(said: str, text: str) -> None:
    if said != text:
        raise AssertionError(f"{said!r} instead of {text!r}")


def llm() -> str:
    """The command line of `llm`, with a completions model in its file of extra models."""
    with tempfile.TemporaryDirectory() as folder:
        entry = (
            f"- model_id: segue\n  model_name: {MODEL}\n  api_base: {URL}/v1\n  completion: true\n"
        )
        (Path(folder) / "extra-openai-models.yaml").write_text(entry)
        command = [sys.executable, "-m", "llm", "-m", "segue", "--key", "none", "-n"]
        options = ["-o", "max_tokens", "8", "-o", "temperature", "0"]
        for more in ([], ["--no-stream"]):
            done = subprocess.run(
                [*command, *options, *more, PROMPT],
                env={**os.environ, "LLM_USER_PATH": folder},
                capture_output=True,
                text=True,
            )
            if done.returncode:
                raise AssertionError(done.stderr[-500:])
            same(done.stdout.strip("\n"), expected().strip("\n"))
    return "a completion model in extra-openai-models.yaml, streamed and not"


def llama_index() -> str:
    from llama_index.llms.openai_like import OpenAILike

    for base in ("/v1", "/vllm/v1"):
        client = OpenAILike(
            model=MODEL,
            api_base=URL + base,
            api_key="none",
            is_chat_model=False,
            max_tokens=8,
            temperature=0,
            context_window=2048,
        )
        same(client.complete(PROMPT).text, expected())
        parts = [part.delta or "" for part in client.stream_complete(PROMPT)]
        same("".join(parts), expected())
        same(asyncio.run(client.acomplete(PROMPT)).text, expected())
    return "OpenAILike.complete, stream_complete, acomplete; at the root and at /vllm"


def guidellm() -> str:
    backend = f"kind=openai_http,target={URL},model={MODEL},request_format=/v1/completions"
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "prompts.jsonl"
        data.write_text('{"prompt": "The sea"}\n{"prompt": "A hill"}\n')
        command = [str(Path(sys.executable).parent / "guidellm"), "run", "--backend", backend]
        command += ["--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=3"]
        command += ["--data", f"kind=json_file,path={data}", "--disable-progress"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise AssertionError((done.stdout + done.stderr)[-800:])
        [benchmark] = json.loads((Path(folder) / "benchmarks.json").read_text("utf-8"))[
            "benchmarks"
        ]
    totals = benchmark["metrics"]["request_totals"]
    if (totals["successful"], totals["total"]) != (2, 2):
        raise AssertionError(f"of its two requests: {totals}")
    return "run, synchronous, text completions over HTTP; both requests successful"


def litellm() -> str:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it looks up prices as it is imported
    import litellm

    litellm.suppress_debug_info = True
    openai, vllm = "text-completion-openai", "hosted_vllm"
    options = {"num_predict": 8, "temperature": 0}
    body = {"model": MODEL, "prompt": PROMPT, "stream": False, "options": options}
    by_ollama = str(wanted("/api/generate", body)["response"])

    def asked(provider: str, path: str, prompt: str = PROMPT) -> dict[str, Any]:
        where = {"model": f"{provider}/{MODEL}", "api_base": URL + path, "api_key": "none"}
        return {**where, "prompt": prompt, "max_tokens": 8, "temperature": 0}

    for provider, path, text in (
        (openai, "/v1", expected()),
        (vllm, "/v1", expected()),
        (vllm, "/vllm/v1", expected()),
        ("llamafile", "/llamafile/v1", expected()),
        ("ollama", "", by_ollama),
        ("ollama", "/ollama", by_ollama),
    ):
        same(litellm.text_completion(**asked(provider, path)).choices[0].text, text)
        parts = litellm.text_completion(**asked(provider, path), stream=True)
        same("".join(part.choices[0].text or "" for part in parts), text)
    for provider, path in (
        (openai, "/v1"),
        (openai, "/llamacpp/v1"),
        (openai, "/llamastack/v1"),
        (openai, "/ollama/v1"),
        (vllm, "/vllm/v1"),
    ):
        try:
            litellm.text_completion(**asked(provider, path, "x" * 5000))
        except litellm.ContextWindowExceededError:
            continue
        raise AssertionError(f"{provider} at {path}: a prompt beyond the context was answered")
    return "text_completion, streamed and not, by four providers; knows a prompt that is too long"


CLIENTS: dict[str, Callable[[], str]] = {
    "llm": llm,
    "llama-index-llms-openai-like": llama_index,
    "guidellm": guidellm,
    "litellm": litellm,
}


def main() -> None:
    is_fine = True
    for name, call in CLIENTS.items():
        try:
            result: dict[str, Any] = {"client": f"Python {name}", "version": version(name)}
        except PackageNotFoundError:
            continue
        try:
            result |= {"ok": True, "called": call()}
        except Exception as error:
            is_fine = False
            result |= {"ok": False, "problem": f"{type(error).__name__}: {error}"[:800]}
        print(json.dumps(result), flush=True)
    sys.exit(not is_fine)


if __name__ == "__main__":
    main()
