import pytest

from segue.server.pages.near_paths import hint_of

SERVED = {
    "/v1/completions",
    "/v1/models",
    "/vllm/v1/completions",
    "/vllm/ping",
    "/vllm/inference/v1/generate",
    "/llamacpp/v1/embeddings",
    "/ollama/",
    "/tokenize",
    "/api/generate",
    "/slots/{id_slot}",
}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/completions/", "Is /v1/completions meant?"),
        ("//v1/completions", "Is /v1/completions meant?"),
        ("/v1", "This is a base URL: clients add the rest, as in POST /v1/completions."),
        ("/vllm/", "This is a base URL: clients add the rest, as in POST /vllm/v1/completions."),
        ("/api", "This is a base URL: clients add the rest, as in POST /api/generate."),
        ("//", ""),
        ("/V1/Completions", "Is /v1/completions meant?"),
        ("/v1/completion", "Is /v1/completions meant?"),
        ("/v1/v1/completions", "Is /v1/completions meant?"),
        ("/vllm/completions", "Is /vllm/v1/completions meant?"),
        ("/v1/tokenize", "Is /tokenize meant?"),
        ("/models", "Is /v1/models meant?"),
        (
            "/vllm/v1/chat/completions",
            "Chat is not served here, only completions: POST /vllm/v1/completions.",
        ),
        (
            "/other/v1/embeddings",
            "Embeddings are not served here, only completions: POST /v1/completions.",
        ),
        (
            "/vllm/v1/decisions",
            "Questions with answers to choose from are not served here, only completions: "
            "POST /vllm/v1/completions.",
        ),
        ("/generate", "Completions have another path here: POST /v1/completions."),
        ("/v1/complete", "Completions have another path here: POST /v1/completions."),
        ("/vllm/generate", "Completions have another path here: POST /vllm/v1/completions."),
        (
            "/v1/embeddings",
            "Embeddings are not served here, only completions: POST /v1/completions.",
        ),
        ("/ping", "Is /vllm/ping meant?"),
        ("/inference/v1/generate", "Is /vllm/inference/v1/generate meant?"),
        ("/API/Generate", "Is /api/generate meant?"),
        ("/api/chat", "Chat is not served here, only completions: POST /api/generate."),
        (
            "/api/embeddings",
            "Embeddings are not served here, only completions: POST /api/generate.",
        ),
        ("/api/pull", "Models are chosen when the server is started, by segue serve."),
        ("/v1/completoins", "Is /v1/completions meant?"),
        ("/v2/completions", "Is /v1/completions meant?"),
        ("/tokenise", "Is /tokenize meant?"),
        ("/slots/{idslot}", ""),
        ("/v1/completions/" + 50 * "x", ""),
        ("/", ""),
        ("", ""),
        ("/wp-login.php", ""),
    ],
)
def test_the_usual_mistakes_are_understood(path: str, hint: str) -> None:
    assert hint_of(path, SERVED) == hint
