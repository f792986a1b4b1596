"""One request that must succeed: its fields in, the JSON of its answer out."""

from typing import Any

import httpx2


def post(client: httpx2.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def complete(client: httpx2.Client, prompt: Any, **body: Any) -> Any:
    return post(client, "/v1/completions", prompt=prompt, **body)
