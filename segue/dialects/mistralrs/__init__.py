"""mistral.rs: one text prompt, DRY and grammar fields of its own, speeds beside the usage."""

from segue.dialects.base import Dialect, Difference, Operation
from segue.dialects.mistralrs.answer import Completion, error_reply, stream_error
from segue.dialects.mistralrs.fields import FIELDS, OF_MODEL, RULES
from segue.dialects.mistralrs.pages import PAGES

DIFFERENCES = (
    Difference(
        "The text of a choice keeps the white space it begins with.",
        "The system trimmed it in 0.9.2, so that prompt and completion could not be joined; 0.9.5 does as here.",
    ),
    Difference(
        "Choices are in the order of their index, and `usage` covers all of them.",
        "The system orders by the time they ended and reports the last one's usage.",
    ),
    Difference(
        "`usage` always has `prompt_tokens_details`, with 0 where nothing came from the cache.",
        "The system tells it, since 0.9.5, where something did; this way answers have the same keys.",
    ),
    Difference(
        "`best_of` above `n` draws more candidates than it returns, as OpenAI's does; below `n` it is "
        "how many of the n return, ranked by mean log-probability.",
        "The system has the second meaning only, and ranks by the sum, which favours short answers.",
    ),
    Difference(
        "`logprobs` are the model's own.",
        "The system's are those after penalties and temperature, so that they depend on how a token was drawn.",
    ),
    Difference(
        "`stop` ends a choice wherever its text appears; an empty one is refused.",
        "The system looks for a text that is one token as that token only, so that `Paris` does not stop at ` Paris`, "
        "and ends at once with an empty one.",
    ),
    Difference(
        "Token ids in `logit_bias` that the model does not have are refused.",
        "The system passes them by, and a bias that does nothing is a mistake.",
    ),
    Difference(
        "DRY counts no repetition across a breaker, nor one that begins with it; a breaker of several tokens counts as "
        "a whole. `dry_multiplier` below 0, `dry_base` below 1 and `repetition_penalty` of 0 and below are refused.",
        "The system knows a breaker's last token, lets repetitions begin with it, counts 50 tokens of one at most, and "
        "takes any number, which turns penalties into rewards or ends in an error.",
    ),
    Difference(
        "The repetition penalty and DRY look at the whole prompt for every token.",
        "The system, as seen in 0.9.5, leaves out what its cache had of the prompt, for the first token of an answer, "
        "so that it depends on what was asked before.",
    ),
    Difference(
        "A choice whose regex or Lark grammar is complete ends there, with `stop`.",
        "The system, as seen in 0.9.5, goes on to `max_tokens` with tokens that have no text.",
    ),
    Difference(
        "`top_k`, `top_p` and `min_p` act on the tokens that a grammar allows; between the tokens of JSON there is one "
        "space, or a line break and what indents the next line.",
        "The system draws among all tokens, and once more among the allowed ones where that gives another, so that "
        "tokens which pass both are drawn too often; spaces in its JSON may go on without end.",
    ),
    Difference(
        "`suffix` is filled in for: the completion is made to lead up to it. It is returned behind the "
        "completion, in streams too.",
        "The system only appends it, so that the text before does not fit, and not in streams.",
    ),
    Difference(
        "`tool_choice` that requires a call makes the answer the JSON of that call, "
        '`{"name": ..., "arguments": ...}`.',
        "The system reads tools here and has no place for a call in the answer.",
    ),
    Difference(
        "`adapter` is the name of an adapter. Those are served that the server was started with: they have no "
        "generations, and there are no `/v1/lora_adapters` and what loads and unloads them.",
        'The system takes `{"generation": ...}` too, for adapters that are replaced while it runs.',
    ),
    Difference(
        "`echo` works in streams too.",
        "The system leaves the prompt out of streams, so that they differ from whole answers.",
    ),
    Difference(
        "In a stream, a chunk holds one choice; each choice ends with its own chunk.",
        "The system waits until every choice has something, and loses pieces once one of them ended.",
    ),
    Difference(
        "An unknown model is answered with 404 where several are served (one that is alone answers to any name, unless "
        "`--strict-model`), `max_tokens: 0` and `best_of: 0` with 422.",
        "The system answers 500, which tells clients to try again, and to the last with no choice at all.",
    ),
    Difference(
        "`/metrics` has the figures of models and of their requests; answers by status are in `/metrics` of the root, "
        "the documents at `/docs`; there is no `/v1/system/info`.",
        "They are of the whole server, not of a dialect.",
    ),
    Difference(
        "Mistakes in a request are answered with their status, streamed or not, and always as "
        '`{"message": ...}`.',
        "The system starts streams with 200 before it looks, and writes some errors as plain text.",
    ),
    Difference(
        "`max_tokens` and `max_completion_tokens` may come together; the first counts.",
        "The system's JSON reader takes the second for a repetition of the first.",
    ),
    Difference(
        "`seed` and `response_format` are honoured.",
        "The system passes them by; a constraint that is passed by is worse than none.",
    ),
    Difference(
        "A model's own sampling defaults are those of `general.sampling.*` in its GGUF file, or of the file that "
        "`--generation-config` names; `suppress_tokens` has no effect.",
        "The system looks for `generation_config.json` beside the file, which has what the original model had.",
    ),
    Difference(
        "`/v1/models/unload` waits until nobody uses the model, and a reload that fails is a 503. There is no "
        "`/v1/models/tune`.",
        "The system answers a failed reload with 200 and `internal_error`.",
    ),
    Difference(
        "Ids are unique; `system_fingerprint` is `local` all the same.",
        "The system counts its answers from 0 with every start.",
    ),
)

MISTRALRS = Dialect(
    name="mistralrs",
    system="mistral.rs",
    operations=(
        Operation(
            "/v1/completions",
            "Complete a prompt.",
            FIELDS,
            Completion,
            RULES,
            of_model=OF_MODEL,
            stream_error=stream_error,
        ),
    ),
    companions=PAGES,
    error=error_reply,
    differences=DIFFERENCES,
)
