"""The pages that clients read."""

from tests.contract import ANY, MODEL, NUMBER, Case, Like
from tests.contract.llamacpp.shapes import error

PAGES = [
    Case(
        "token prompt",
        "/llamacpp/tokenize",
        {"content": "hi"},
        answer={"tokens": [104, 105]},
        source="B.1 /tokenize",
    ),
    Case(
        "token prompt",
        "/llamacpp/tokenize",
        {"content": ["é", 7], "with_pieces": True},
        answer={
            "tokens": [
                {"id": 195, "piece": [195]},
                {"id": 169, "piece": [169]},
                {"id": 7, "piece": "\x07"},
            ]
        },
        source="B.1 /tokenize: with_pieces",
    ),
    Case("token prompt", "/llamacpp/tokenize", {}, answer={"tokens": []}, source="B.1 /tokenize"),
    Case(
        "error",
        "/llamacpp/models/load",
        {"model": MODEL},
        status=400,
        answer=error("model is already running"),
        source="tools/server/README.md: POST /models/load",
    ),
    Case(
        "error",
        "/llamacpp/models/unload",
        {"model": "nobody"},
        status=404,
        answer=error(Like(r"model 'nobody' not found.*"), 404, "not_found_error"),
        source="tools/server/README.md: POST /models/unload",
    ),
    Case(
        "token prompt",
        "/llamacpp/detokenize",
        {"tokens": [104, 105]},
        answer={"content": "hi"},
        source="B.1 /detokenize",
    ),
    Case(
        "usage",
        "/llamacpp/health",
        None,
        method="GET",
        answer={"status": "ok"},
        source="B.1 /health",
    ),
    Case(
        "usage",
        "/llamacpp/metrics",
        None,
        method="GET",
        answer=Like(r".*\nllamacpp:tokens_predicted_total [0-9]+\n.*"),
        headers={"content-type": "text/plain; version=0.0.4; charset=utf-8"},
        source="B.1 /metrics",
    ),
    Case(
        "usage",
        "/props",
        None,
        method="GET",
        answer={
            "default_generation_settings": {"params": ANY, "n_ctx": 4096},
            "total_slots": 256,
            "model_alias": MODEL,
            "model_ftype": "none",
            "model_path": f"{MODEL}.gguf",
            "modalities": {"vision": False, "video": False, "audio": False},
            "media_marker": "",
            "endpoint_slots": True,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "ui": False,
            "ui_settings": {},
            "chat_template": "",
            "chat_template_caps": {},
            "bos_token": "",
            "eos_token": "<|endoftext|>",
            "build_info": Like("segue-.+"),
            "is_sleeping": False,
            "cors_proxy_enabled": False,
            "deterministic": True,
            "system_fingerprint": Like("fp_.+"),
        },
        source="B.1 /props",
    ),
    Case(
        "usage",
        "/slots?fail_on_no_slot=true",
        None,
        method="GET",
        answer=[
            {"id": slot, "n_ctx": 4096, "speculative": True, "is_processing": False}
            for slot in range(256)
        ],
        source="B.1 /slots",
    ),
    Case(
        "usage",
        "/llamacpp/v1/models",
        None,
        method="GET",
        answer={
            "models": [
                {
                    "name": MODEL,
                    "model": MODEL,
                    "modified_at": Like(r"20\d\d-.+Z"),
                    "size": "0",
                    "digest": Like("[0-9a-f]{64}"),
                    "type": "model",
                    "description": "",
                    "tags": [],
                    "capabilities": ["completion"],
                    "parameters": "",
                    "details": {
                        "parent_model": "",
                        "format": "gguf",
                        "family": "fake",
                        "families": ["fake"],
                        "parameter_size": "",
                        "quantization_level": "none",
                    },
                }
            ],
            "object": "list",
            "data": [
                {
                    "id": MODEL,
                    "aliases": [],
                    "tags": [],
                    "object": "model",
                    "created": NUMBER,
                    "owned_by": "llamacpp",
                    "status": {"value": "loaded"},
                    "source": "preset",
                    "can_remove": False,
                    "meta": {
                        "vocab_type": 2,
                        "n_vocab": 264,
                        "n_ctx": 4096,
                        "n_ctx_train": 0,
                        "n_embd": 8,
                        "n_params": 0,
                        "size": 0,
                        "ftype": "none",
                    },
                    "architecture": {
                        "input_modalities": ["text"],
                        "output_modalities": ["text"],
                    },
                }
            ],
        },
        source="B.1 /v1/models",
    ),
    *(
        Case(
            "error",
            f"/slots/0?action={action}",
            {"filename": "a.bin"},
            status=501,
            answer=error(
                "This server does not support slots action. Start it with `--slot-save-path`",
                501,
                "not_supported_error",
            ),
            source="C.1: slot save when not enabled",
        )
        for action in ("save", "restore", "erase")
    ),
    *(
        Case(
            "error",
            path,
            {"filename": "a.bin"},
            status=400,
            answer=error(message),
            source="the server's code: what is refused before slots are looked at",
        )
        for path, message in (
            ("/llamacpp/slots/x?action=save", Like("Invalid slot ID: .*")),
            ("/slots/-1?action=erase", Like("Invalid slot ID: .*")),
            ("/slots/0?action=load", Like("Invalid action: .*")),
            ("/slots/0", Like("Invalid action: .*")),
        )
    ),
]
