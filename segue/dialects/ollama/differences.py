"""Where this dialect does on purpose what Ollama does not."""

from segue.dialects.base import Difference

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "/v1/completions never wraps the prompt in a chat template; /api/generate does, unless raw is true.",
        "Ollama wraps it there too, with no way to turn it off: what was sent is not what is completed.",
    ),
    Difference(
        "A prompt that does not fit the context is refused with 400, unless truncate is true; then 256 tokens of the "
        "context, or half of it, are left for an answer without a bound.",
        "Ollama cuts about half of it away and says nothing.",
    ),
    Difference(
        "After a shift an answer depends on the tokens that stayed, as if they were its prompt, with any model. At the "
        "least a sixteenth of the context goes. What fills a gap does not shift.",
        "Ollama keeps what was computed of them, which still knows of those that went. It does not shift models of the "
        "family deepseek2, nor those that llama.cpp cannot.",
    ),
    Difference(
        "An answer whose last 32 tokens are the same ends with its last line and the reason length.",
        "Ollama compares texts of tokens without the blanks around them; the answer ends before the 32nd without that "
        "line, or with done false.",
    ),
    Difference(
        "think may only be false; what a model thinks is part of its response, and /api/show has no thinking.",
        "Ollama tells it apart where a model's template has tags for it, and which values of think it knows.",
    ),
    Difference(
        "A model's template is the Jinja one its file carries; the request's own may use .System, .Prompt, "
        ".Suffix, .Response, if, else and end.",
        "Ollama keeps templates in Go's language beside the model; others are refused rather than misread.",
    ),
    Difference(
        "suffix works with every model and with raw; with an empty prompt where a model has FIM tokens or BOS.",
        "Ollama refuses it where its template does not name it, drops it with raw, and loads the model instead.",
    ),
    Difference(
        "Where a model has no template, or one without a place for a system text, that text, an empty line and "
        "the prompt are asked as one.",
        "Ollama drops the system text then.",
    ),
    Difference(
        "keep_alive is the server's own setting unless the request has one.",
        "Ollama unloads after five minutes.",
    ),
    Difference(
        "A wrong type in options, a wrong format, a template that cannot be read and an id in context that the model "
        "does not have are a 400 that says which it is.",
        "Ollama answers 500.",
    ),
    Difference(
        "Fields are known by the names they are documented under, and the body is one JSON value. A request without a "
        "model is a 400, and a model's name is taken as it is written, but for the tag latest.",
        "Ollama reads a field's name in any case, drops what follows the value and answers 404; of a model's name it "
        "ignores case, blanks around it, its own host and namespace before it, and :local behind it.",
    ),
    Difference(
        "An empty stop text is a 400, and so is a stop of /v1/completions that is neither a text nor a list of texts.",
        "Ollama ends the answer at once with the first, and drops the second in silence.",
    ),
    Difference(
        "stop may be a single text in options too, and keep_alive a number in a text.",
        "Ollama refuses them, but what is meant is clear.",
    ),
    Difference(
        "format: {} is any JSON, and a schema that cannot be enforced is refused.",
        "Ollama takes {} for any object, and ignores keywords it does not know.",
    ),
    Difference(
        "logprobs has an entry for every token but the end token, with its own bytes.",
        "Ollama leaves out tokens that end within a character, and cuts one that a stop text begins in.",
    ),
    Difference(
        "context is taken as tokens, and has the answer's as they were drawn, with the end token.",
        "Ollama makes text of it, and tokens of the text again: others at times, and without the end of an answer.",
    ),
    Difference(
        "Where nothing may follow what format has let through, the answer ends, without an end token.",
        "Ollama draws that token and counts it.",
    ),
    Difference(
        "Bytes at the end of an answer that are no whole character are written as U+FFFD.",
        "Ollama leaves them out, and text and tokens do not agree.",
    ),
    Difference(
        "_debug_render_only has no effect; /llamacpp/apply-template shows a prompt.",
        "It is no part of Ollama's documents.",
    ),
    Difference(
        "HEAD is answered wherever GET is, and a path with a slash too many is a 404 that names the right one.",
        "Ollama answers HEAD with 405 but at /, /api/tags and /api/version, and redirects.",
    ),
    Difference(
        "With include_usage, usage is null until the last chunk.",
        "Ollama writes zeros, which clients add up.",
    ),
    Difference(
        "The id of a completion is as long as it needs to be to be unique.",
        "Ollama draws it from 999 numbers.",
    ),
    Difference(
        "A broken stream of /v1/completions ends with an error event and [DONE].",
        "Ollama sends an empty chunk and nothing more.",
    ),
    Difference(
        "digest is the SHA-256 of the model's file where it was computed; elsewhere it only tells models apart.",
        "Models here are files, not manifests of layers.",
    ),
    Difference(
        "load_duration includes waiting in the queue.",
        "Models stay loaded.",
    ),
    Difference(
        "In /api/tags and /api/show, context_length is the context that is served; parameters has it as num_ctx.",
        "The file may say more, and a request cannot ask for more.",
    ),
    Difference(
        "In /api/show, license is what the file says.",
        "Ollama has licences beside the model.",
    ),
    Difference(
        "/api/show lists tensors with verbose only, and the vocabulary and tensors of loaded models only.",
        "They are read by the model's own process, and few clients want them.",
    ),
    Difference(
        "In /api/show, the template of a model with FIM tokens begins with a comment about .Suffix.",
        "Editors look for that word, and the model's own template has no place for a suffix.",
    ),
    Difference(
        "num_ctx, num_batch, num_gpu and the other options of loading are named in x-segue-ignored, and so is runner.",
        "A model is loaded once, by the server's own settings.",
    ),
    Difference(
        "/api/version names the Ollama whose contract this is, and Segue's own version beside it.",
        "Clients compare it with the versions of Ollama: from 0.35 on they ask for decisions, which are not made here.",
    ),
)
