"""What Ollama tells about itself and its models."""

from typing import Any

from tests.contract import ANY, MODEL, NUMBER, Case, Like
from tests.contract.ollama.completions import TIME

DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "fake",
    "families": ["fake"],
    "parameter_size": "",
    "quantization_level": "none",
}
TAGGED = f"{MODEL}:latest"

# What is asked, and what stands for the tokens and beside the rest of the answer.
VERBOSITIES: tuple[tuple[dict[str, Any], Any, dict[str, Any]], ...] = (
    ({}, None, {}),
    ({"verbose": True}, ["a", "b"], {"tensors": []}),
)

PAGES = [
    Case(
        "usage",
        "/ollama/",
        None,
        method="GET",
        answer="Ollama is running",
        source="endpoints in scope: health",
    ),
    Case(
        "usage",
        "/api/version",
        None,
        method="GET",
        answer={"version": "0.33.3", "segue": ANY},
        source="B.3 companions",
    ),
    *(
        Case(
            "usage",
            "/api/show",
            {"model": MODEL, **asked},
            answer={
                "license": "none",
                "modelfile": Like("FROM fake\nTEMPLATE .+\nPARAMETER num_ctx 4096\nLICENSE .+"),
                "parameters": "num_ctx                        4096",
                "template": Like(r".*\.Suffix.*\{\{ \.Prompt \}\}"),
                "template_source": "none",
                "details": DETAILS,
                "model_info": {
                    "general.architecture": "fake",
                    "general.license": "none",
                    "general.parameter_count": 0,
                    "fake.context_length": 4096,
                    "fake.embedding_length": 8,
                    "fake.vocab_size": 264,
                    "tokenizer.ggml.model": "gpt2",
                    "tokenizer.ggml.tokens": tokens,
                },
                "capabilities": ["completion", "insert"],
                "modified_at": TIME,
                **more,
            },
            source="B.3 companions: capabilities",
        )
        for asked, tokens, more in VERBOSITIES
    ),
    Case(
        "usage",
        "/api/tags",
        None,
        method="GET",
        answer={
            "models": [
                {
                    "name": TAGGED,
                    "model": TAGGED,
                    "modified_at": TIME,
                    "size": 0,
                    "digest": Like("[0-9a-f]{64}"),
                    "details": {**DETAILS, "context_length": 4096, "embedding_length": 8},
                    "capabilities": ["completion", "insert"],
                }
            ]
        },
        source="B.3 companions",
    ),
    Case(
        "usage",
        "/api/ps",
        None,
        method="GET",
        answer={
            "models": [
                {
                    "name": TAGGED,
                    "model": TAGGED,
                    "size": 0,
                    "digest": Like("[0-9a-f]{64}"),
                    "details": DETAILS,
                    "expires_at": TIME,
                    "size_vram": 0,
                    "context_length": 4096,
                }
            ]
        },
        source="B.3 companions",
    ),
    Case(
        "usage",
        "/ollama/v1/models/fake",
        None,
        method="GET",
        answer={"id": MODEL, "object": "model", "created": NUMBER, "owned_by": "library"},
        source="B.3 companions",
    ),
    Case(
        "usage",
        "/ollama/v1/models/fake:latest",
        None,
        method="GET",
        answer={"id": TAGGED, "object": "model", "created": NUMBER, "owned_by": "library"},
        source="B.3 companions",
    ),
    Case(
        "error",
        "/ollama/v1/models/llama3",
        None,
        method="GET",
        status=404,
        answer={
            "error": {
                "message": "model 'llama3' not found; served: fake",
                "type": "not_found_error",
                "param": None,
                "code": None,
            }
        },
        source="C.1 /c",
    ),
    Case(
        "error",
        "/ollama/api/chat",
        {},
        status=404,
        answer="404 page not found. "
        "Chat is not served here, only completions: POST /ollama/api/generate.",
        source="C.1 unknown path: text",
    ),
]
