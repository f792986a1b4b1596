"""vLLM's OpenAI-compatible server, as of 0.33."""

from dataclasses import replace

from segue.dialects.base import Dialect, Difference, Operation
from segue.dialects.vllm.answer import Completion, error_reply
from segue.dialects.vllm.fields import FIELDS, OF_MODEL, RULES, check_truncation
from segue.dialects.vllm.generate import GENERATE
from segue.dialects.vllm.pages import PAGES
from segue.dialects.vllm.scoring import SCORING

DIFFERENCES = (
    Difference(
        "prompt_logprobs is answered in a stream too, with the first chunk of each choice.",
        "vLLM refuses it with 400, and people have asked for it.",
    ),
    Difference(
        "logprobs and prompt_logprobs that are false ask for none.",
        "vLLM takes false for 0, which asks for the chosen token's.",
    ),
    Difference(
        "Alternatives of a token are 100 at most, or what --max-logprobs says; -1 is refused.",
        "vLLM has 20 without that flag, and takes -1 for all of the vocabulary where the flag allows it.",
    ),
    Difference(
        "suffix fills in the middle for every model.",
        "vLLM does so for one family of models and refuses the others.",
    ),
    Difference(
        "echo with max_tokens 0 generates nothing: completion_tokens is 0.",
        "vLLM draws a token that nobody sees, and counts it.",
    ),
    Difference(
        "echo returns the prompt together with return_token_ids as well.",
        "vLLM leaves the text out then, which nothing in its documents says.",
    ),
    Difference(
        "echo returns a prompt that truncate_prompt_tokens has cut as it was cut.",
        "vLLM returns all of a text, before log-probabilities of the part that was read; ids are cut, as here.",
    ),
    Difference(
        "truncate_prompt_tokens leaves room for max_tokens, up to half of the context.",
        "vLLM leaves one token, and answers with that.",
    ),
    Difference(
        "An empty text is a prompt where the model begins texts with a token. One prompt may mix texts and ids.",
        'vLLM answers [""] then, and refuses "".',
    ),
    Difference(
        "text_offset says where a token begins in the text of the choice.",
        "vLLM adds up the lengths of tokens' names, so that a BOS, half a character and token_id:7 shift what follows.",
    ),
    Difference(
        "token and decoded_token are all of a token: SentencePiece's with their space, half a character by its bytes "
        '("bytes:\\xf0"). Half a character at the end of a prompt is no part of the answer.',
        'vLLM leaves the space out, calls halves "" and the last of them by the whole character, so that several '
        "tokens are one in top_logprobs; it repeats the end of such a prompt.",
    ),
    Difference(
        "Of two stop strings that end with the same character the longer one counts.",
        "vLLM takes the one that comes first in the list.",
    ),
    Difference(
        "guided_json, guided_regex, guided_choice and guided_grammar constrain the answer.",
        "vLLM dropped them in 0.12 and answers unconstrained text with 200; a constraint must not fail open.",
    ),
    Difference(
        "A constrained answer ends once nothing may follow: without a token for the end, and with finish_reason "
        "stop at max_tokens too.",
        "vLLM draws that token and counts it, or goes on with any text if ends are passed by or come too early.",
    ),
    Difference(
        "Where a constraint and bans together allow no token, the choice ends with the finish_reason error.",
        "vLLM answers 500, which tells clients to try again.",
    ),
    Difference(
        "Log-probabilities of a constrained answer are the model's own, as all others are.",
        "vLLM's are among the tokens that the constraint allows, and so those of most are near 0.",
    ),
    Difference(
        "A structural_tag's format is refused where it has an unknown key, counts tokens of a text, or leaves "
        "open where a JSON value, a free text or any tokens begin or end.",
        "vLLM enforces the others and passes unknown keys by; a constraint that cannot be enforced must not be.",
    ),
    Difference(
        "A max_tokens above the context is answered, up to the context.",
        "vLLM refuses it; one that does not fit together with the prompt is answered by both.",
    ),
    Difference(
        "Every chunk has the key usage, null unless continuous usage was asked for.",
        "Older versions of vLLM wrote it, newer ones do not; clients that look for it find it.",
    ),
    Difference(
        "The last chunk of a choice carries its finish_reason and no text.",
        "vLLM joins it with the last token; waiting for that would delay every token by one.",
    ),
    Difference(
        "prompt_tokens_details.cached_tokens is always reported, and so are the metrics of an answer with one choice, "
        "but for the time in the queue.",
        "vLLM has flags for them.",
    ),
    Difference(
        "Every 400 has the type BadRequestError and the field's own name as param.",
        'vLLM answers "Bad Request" and "body.n" where its request model refused, which says the same twice.',
    ),
    Difference(
        "What is wrong with a streamed request is answered with its status, as long as nothing was sent.",
        "vLLM answers 200 and an error inside the stream where its engine refused, such as for token ids out of range.",
    ),
    Difference(
        "prompt embeddings are refused; n is at most 128, bad_words are 128 of 256 characters, penalties have bounds.",
        "Prompts are text or token ids.",
    ),
    Difference(
        "priority other than 0 is refused where the server does not schedule by priority. Between API keys turns are "
        "taken, whatever their priorities.",
        "vLLM's documents say so of the first; its server passes it by, as both do with the header X-Vllm-Priority "
        "then. It has no fairness among keys.",
    ),
    Difference(
        "thinking_token_budget and watermarking have no effect, nor has what "
        "speaks to other parts of vLLM, such as kv_transfer_params and vllm_xargs.",
        "They are named in x-segue-ignored.",
    ),
    Difference(
        "A model's own sampling defaults are also read from general.sampling.* of a GGUF file. A value out of range is "
        "left out with a warning, or refused at the start if --generation-config names its file.",
        "vLLM then refuses every request that does not set the field itself.",
    ),
    Difference(
        "A name in repetition_detection that is not known is refused.",
        "vLLM passes it by, so that a misspelt limit ends nothing.",
    ),
    Difference(
        "use_beam_search refuses stop, bans, biases, min_tokens, prompt_logprobs, repetition_detection, "
        "constraints, and numbers out of range.",
        "vLLM ignores them then, and answers as if they had not been given; only allowed_token_ids hold, on GPUs.",
    ),
    Difference(
        "/tokenize takes a prompt and no messages, and token_strs are texts; /detokenize answers with content beside "
        "prompt, and refuses ids out of range.",
        "Chat is not served here; vLLM's token_strs are spellings of its vocabulary (Ġ for a space).",
    ),
    Difference(
        "/metrics has what gateways, autoscalers and vLLM's dashboards read, under its names and with buckets of its "
        "own. There is no /v1/completions/render, nor its reverse.",
        "The others are of GPUs and of images. A prompt's tokens are told by /tokenize.",
    ),
    Difference(
        "/v1/decisions and /v1/systemone are a 404.",
        "They put questions to a chat model. How likely labels are after a text is told by /generative_scoring.",
    ),
    Difference(
        "No adapter is loaded while the server runs, and nothing asks it to sleep, to profile or to reset caches.",
        "They are off in vLLM unless a variable turns them on.",
    ),
    Difference(
        "/generative_scoring refuses a prompt that is too long, and puts BOS in front with item_first, too.",
        "vLLM cuts off its end, which is the item, and puts BOS before the query, between the two.",
    ),
    Difference(
        "/inference/v1/generate is there without a flag; sampling_params may be left out, and have what "
        "/v1/completions has, but logprob_token_ids. Nothing is parsed (`derender`), no token is prescribed or asked "
        "about (`trace_decode_token_ids`, `prompt_logprob_token_ids`), and a request is ended by closing its "
        "connection.",
        "vLLM answers 403 without --enable-scale-out. The others speak to other parts of vLLM, or are of chat.",
    ),
    Difference(
        "With API keys, /metrics, /load, /version, /tokenize and /invocations need one as well.",
        "vLLM asks for it below /v1 and /inference only, so that whoever reaches the port may use the model.",
    ),
    Difference(
        "/version names the vLLM whose contract this is, and Segue's own version beside it.",
        "Clients compare it with the versions of vLLM.",
    ),
)

COMPLETIONS = Operation(
    "/v1/completions",
    "Complete prompts.",
    FIELDS,
    Completion,
    RULES,
    check=check_truncation,
    of_model=OF_MODEL,
    exact_model=True,
    priority_header=b"x-vllm-priority",
    reports_load=True,
)

VLLM = Dialect(
    name="vllm",
    system="vLLM",
    operations=(
        COMPLETIONS,
        replace(COMPLETIONS, path="/invocations", doc="The same, where SageMaker asks for it."),
        SCORING,
        GENERATE,
    ),
    companions=PAGES,
    error=error_reply,
    differences=DIFFERENCES,
)
