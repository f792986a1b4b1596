"""What Ollama tells about itself and its models."""

from tests.contract import ANY, MODEL, NUMBER, Case, Like
from tests.contract.ollama.completions import TIME

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
        answer={"version": "0.33.0", "segue": ANY},
        source="B.3 companions",
    ),
    Case(
        "usage",
        "/api/show",
        {"model": MODEL},
        answer={
            "modelfile": ANY,
            "parameters": "",
            "template": "{{ .Prompt }}",
            "details": ANY,
            "model_info": {
                "general.architecture": "fake",
                "general.parameter_count": 0,
                "fake.context_length": 4096,
                "fake.vocab_size": 264,
            },
            "capabilities": ["completion", "insert"],
            "modified_at": TIME,
        },
        source="B.3 companions: capabilities",
    ),
    Case(
        "usage",
        "/api/tags",
        None,
        method="GET",
        answer={
            "models": [
                {
                    "name": MODEL,
                    "model": MODEL,
                    "modified_at": TIME,
                    "size": 0,
                    "digest": Like("[0-9a-f]{64}"),
                    "details": {
                        "parent_model": "",
                        "format": "gguf",
                        "family": "fake",
                        "families": ["fake"],
                        "parameter_size": "0",
                        "quantization_level": "none",
                        "context_length": 4096,
                    },
                    "capabilities": ["completion", "insert"],
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
        answer={"id": MODEL, "object": "model", "created": NUMBER, "owned_by": "library"},
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
