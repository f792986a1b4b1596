"""Where this dialect does on purpose what llama.cpp's server does not."""

from segue.dialects.base import Difference

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "An entry of `lora` must have a number for `id` and `scale`; an id that no adapter has is a 400. "
        "Without any adapter the field is ignored; an empty list turns all adapters off. `/lora-adapters` tells names "
        "too, and settings in answers tell the adapters that were used.",
        "The server takes a missing scale for 0, passes over ids it does not know, and takes an empty list for none; "
        "settings repeat what was sent.",
    ),
    Difference(
        "`echo` returns the prompt, with its log-probabilities where `logprobs` asks for them.",
        "Its manual documents the field; the server reads it and does nothing.",
    ),
    Difference(
        "`logprobs` on `/v1/completions` has both layouts in one object: `content` with an entry a "
        "token, and `tokens`, `token_logprobs`, `top_logprobs` and `text_offset`.",
        "The server sends the first, its manual shows the second.",
    ),
    Difference(
        "The ids of `/v1/completions` begin with `cmpl-`.",
        "As its manual shows; the server writes `chatcmpl-` here too.",
    ),
    Difference(
        "Every generated token has its own log-probability entry, exact for guessed tokens as well.",
        "The server joins or drops entries around stop strings and characters of several tokens, and "
        "reports 0 for tokens it guessed.",
    ),
    Difference(
        "Entries name special tokens, such as the one that ended the text.",
        "The server writes an empty text for them.",
    ),
    Difference(
        "In a stream, text that may begin a stop string, and bytes that are not yet a character, wait with "
        "their tokens for the rest, so that a piece may have several tokens; what stands before them does not wait.",
        "The server sends a piece without text for each token, except for those that end inside a character.",
    ),
    Difference(
        "A stream that ends inside a character ends with U+FFFD, like the whole answer.",
        "The server's streams end before the token that begins it.",
    ),
    Difference(
        "With `n_indent`, a stream has the text of the whole answer, which ends with the first token that shows its "
        "end.",
        "The server has sent the beginning of the line that it then takes back, and draws a token more behind an empty "
        "line.",
    ),
    Difference(
        "Chunks that tell progress have no tokens, and timings stand in the last chunk alone unless "
        "`timings_per_token` asks for them.",
        "The server writes `[0]` into the first. Where a stop string has ended an answer, the chunk before the last "
        "one has timings too; and a stream of several choices may begin with `data: null`.",
    ),
    Difference(
        "With several choices, `usage` and `timings` of a whole answer cover all of them.",
        "The server reports those of the first choice.",
    ),
    Difference(
        "`n` may be up to 128, whatever the number of slots.",
        "Choices wait for a slot here instead of being refused.",
    ),
    Difference(
        "`max_tokens: 0` reads the prompt and generates nothing.",
        "As its manual says; the server generates one token.",
    ),
    Difference(
        "`repeat_penalty` is 1.0 by default.",
        "As in the server; its manual still says 1.1.",
    ),
    Difference(
        "`repeat_last_n: -1` and `dry_penalty_last_n: -1` mean all tokens.",
        "They did for years and clients send them; the server refuses them now.",
    ),
    Difference(
        "`dry_sequence_breakers: []` means that there are none.",
        "The server refuses an empty list.",
    ),
    Difference(
        "`true` and `false` are refused where a number is expected, `logprobs` apart.",
        "The server's JSON reader takes them for 1 and 0 without meaning to.",
    ),
    Difference(
        "A value of a wrong type is refused in every field, and so is an entry of `logit_bias` that is none.",
        "The server passes some by, so that `stop: 5`, `grammar: []` or the bias of a token that the model "
        "does not have do nothing.",
    ),
    Difference(
        "`suffix` on `/v1/completions` is filled in for, with any model.",
        "Its manual documents the field; the server drops it in silence.",
    ),
    Difference(
        "`/infill` answers with any model: one without tokens of its own for that gets the best of several candidates.",
        "The server refuses such models with 501.",
    ),
    Difference(
        "`/infill` takes the order of prefix and suffix, the names of repository and file, and how many "
        "candidates are ranked (`infill_order`, `infill_mode`, `infill_repo`, `infill_file`, `best_of`), "
        "and its answer says in `infill` how the gap was filled and what fitted.",
        "The server has the order as a flag (`--spm-infill`), and the same names for every repository "
        "and file.",
    ),
    Difference(
        "`truncated` is also true where context of an `/infill` request did not fit, and false where an answer of "
        "`n_predict` tokens just fills the context.",
        "The server cuts the first in silence, and nothing is missing from the second.",
    ),
    Difference(
        "`prompt` in answers is what the request wrote, without BOS; of `/infill` it is the text before the gap.",
        "The server tells all that the model read; of `/infill` the figures are in `infill` here.",
    ),
    Difference(
        "Text that follows token ids in a mixed prompt is read as it is.",
        "The server puts a space in front of it where the model's tokenizer does so at the start of a text.",
    ),
    Difference(
        "`/apply-template` with `continue_final_message: false` ends an assistant's message that comes last; with "
        "`true` no other message is continued.",
        "The server continues it whatever the request says, and makes a user's message the answer's beginning.",
    ),
    Difference(
        "The averages in `/metrics` are over all the time since the start.",
        "Those of the server are over the time since the page was last read, so that each reader takes them from the "
        "others.",
    ),
    Difference(
        "There is no route for Vertex AI: `AIP_MODE` and what belongs to it have no effect.",
        "With it, the server takes any of its requests as entries of one list.",
    ),
    Difference(
        "A request that is at fault is a 400: of `/detokenize` with an id that the model does not have, of "
        "`/apply-template` with a message without a role, or with an image.",
        "The server answers these with 500, which tells clients to try again.",
    ),
    Difference(
        "`/apply-template` takes one message at least, each with a text: `content: null` is a 400.",
        "The server writes nothing for it. A message without a text is a call of tools, which are not served here.",
    ),
    Difference(
        "`/apply-template` answers 501 where a model has no chat template; `chat_template_caps` of `/props` is empty.",
        "The server takes ChatML then, which such a model was not trained on. Chat is not served here.",
    ),
    Difference(
        "`/apply-template` puts what a system says before the next message where a template refuses it, and leaves "
        "spaces around texts to the template.",
        "The server does so too where a template drops it in silence, and trims the texts for some templates.",
    ),
    Difference(
        "`grammar` and `json_schema` together are refused, and so is a schema that cannot be enforced "
        "in full or that nothing fits, such as `false`.",
        "The server ignores the schema beside a grammar, keywords it does not know, and `false`.",
    ),
    Difference(
        "What would complete a trigger of a lazy grammar and does not fit the grammar is not drawn; a trigger that "
        "never fits is a 400, as is `grammar_lazy` without triggers, a lazy grammar in Lark, one whose rules lead to "
        "themselves from the left behind a pattern, and a trigger that matches the empty text or ends the answer.",
        "The server draws it and answers 500. Without the field `grammar_triggers` a lazy grammar never holds, and one "
        "in Lark holds at once.",
    ),
    Difference(
        "Triggers are looked for after each character, and `$` and look-ahead in their patterns after each token; "
        "`.` is a character. Free text before one is whole characters.",
        "The server looks after each token, so that of two triggers in one token another may count, and its patterns "
        "see bytes.",
    ),
    Difference(
        "In GBNF every rule is defined once and every class has characters. Names of rules may have `_`, and rules may "
        "lead to themselves from the left.",
        "The server takes the last of two rules, and ends the answer at an empty class. Names with `_` and such rules "
        "it refuses.",
    ),
    Difference(
        "In GBNF a token (`<[5]>`, `<think>`) is refused where its text may come as well, if it is no control token; "
        "these are part of no text. So is a token that ends answers, or that the model does not have.",
        "The server reads every token as itself and by its text, whatever it is; a token that ends answers never "
        "comes. Some that it lets through it cannot read then, and answers 500.",
    ),
    Difference(
        "A grammar that begins with `%llguidance` is Lark, and a 400 where it is none.",
        "The server knows Lark where it was built with the library. It answers free text where the grammar is wrong.",
    ),
    Difference(
        "A constraint bans tokens before every step of sampling.",
        "The server draws without it first; if that token may not come, it draws again after the ban. Cuts then keep "
        "other tokens, and `post_sampling_probs` may list some that cannot come.",
    ),
    Difference(
        "Where nothing may follow what a constraint has let through, the answer ends, without an end token; text that "
        "it leaves no choice in is written in the tokens that the tokenizer makes of it.",
        "The server draws the end token, counts it, and answers `limit` where `n_predict` leaves no room for it.",
    ),
    Difference(
        "`json_schema: {}` is any JSON.",
        "As its manual says; the server takes it for any object.",
    ),
    Difference(
        "`response_format` is honoured on every path.",
        "The server passes it by on completions; a constraint that is passed by is worse than none.",
    ),
    Difference(
        "A name in `samplers` that is not known is refused.",
        "The server leaves it out, so that a mistyped step does nothing.",
    ),
    Difference(
        "With `mirostat` the penalties, DRY and a range of the temperature act too; only the cuts do not.",
        "As its manual says; the server leaves out every step but a fixed temperature.",
    ),
    Difference(
        "`typical_p` cuts the same where tokens are banned, and after `top_n_sigma`.",
        "The server's measure of surprise is no number then, and what it keeps is arbitrary.",
    ),
    Difference(
        "Source code in `/infill` is read as text, even where it spells a special token.",
        "The server reads `prompt` otherwise, so that a file about tokens cannot be completed.",
    ),
    Difference(
        "At most 64 stop strings, none of them empty; at most 100 alternatives a token.",
        "An empty stop string ends every answer at once, and limits keep a request from exhausting "
        "the server.",
    ),
    Difference(
        "A prompt without any token is refused with 400.",
        "There is nothing to continue; the server answers with an empty text.",
    ),
    Difference(
        "A stream that breaks ends with its error event and `data: [DONE]` on `/v1/completions`.",
        "OpenAI's clients wait for it; the server just ends.",
    ),
    Difference(
        "The choices of one request draw from independent random streams of the same seed.",
        "The server gives choice j the seed plus j, so that choices of neighbouring seeds repeat.",
    ),
    Difference(
        "`general.sampling.*` of a file that is no number or out of range is left out with a warning; "
        "`--generation-config` turns them off or names another file.",
        "The server takes what it can read of a value; one out of range has its effect, or ends the server.",
    ),
    Difference(
        "A slot holds the prompt and answer of the last request that named it with `id_slot`, for the API key that "
        "did, as long as the prefix cache has them; to save one that holds nothing is a 400. Requests with the same "
        "`id_slot` run beside each other, and what is restored serves any request that begins alike. Slot 0 holds what "
        "requests without `id_slot` leave too, as long as none has named it.",
        "The server's slots have memory of their own: a request without `id_slot` takes one too, and an empty one is "
        "saved as an empty file.",
    ),
    Difference(
        "What `/slots/{id_slot}` saves is restored by the same version for the same model, type of KV cache and API "
        "key only, and only if the file is whole. A name cannot begin with a dot, nor be that of a file which is no "
        "slot that this key saved. Only our own kernels write slots; on llama.cpp and vLLM it is 501.",
        "The server takes any file that has the right shape, overwrites any file, and empties the slot where one "
        "does not fit.",
    ),
    Difference(
        "`/slots/{id_slot}` with an action that there is not, or no number, is a 400 with and without "
        "`--slot-save-path`; a missing `filename` too. Beyond the last slot comes the first, as in the server.",
        "The server looks at the flag first, and answers a missing name with 500.",
    ),
    Difference(
        "Of several models `/models/load` answers once one is loaded, and `/models/unload` waits until nobody uses it, "
        "which a load meanwhile takes back. `?model=` names the one that a page tells of, which loads none, whatever "
        "`autoload` says.",
        "The server answers before a load has ended, and ends the requests of a model that is unloaded.",
    ),
    Difference(
        "No request downloads or deletes a model, and a model's `status` has no `args`. `/models/sse` tells of loads "
        "and unloads, of one model too, without progress; 64 clients may listen.",
        "Whoever may complete could fill the disk, and arguments name paths of the server. There, only the server that "
        "routes to several models has events.",
    ),
    Difference(
        "A stream with `X-Conversation-Id` belongs to the API key of its request. 32 are kept, of a key 16; those that "
        "ended longest ago are forgotten first. Where it cannot be kept, or with several server processes, "
        "`x-segue-ignored` names the header, and the stream ends with its connection, as a whole answer always does.",
        "The server lets whoever knows the name read along, and keeps as many as come.",
    ),
    Difference(
        "`/slots` tells which slots compute. With `--slot-save-path` it also tells of each slot that holds something "
        "for the API key that asks `n_prompt_tokens`, and as `n_past` how many tokens would be saved; 0: none are in "
        "memory any more.",
        "The server shows the settings and figures of one client's request to every other.",
    ),
    Difference(
        "Settings in answers tell the seed that was drawn where the request has none, and of `logit_bias` the "
        "entries by token id.",
        "The server tells 4294967295, which draws another answer, and what its tokenizer made of each text.",
    ),
    Difference(
        "`n_cache_reuse` and what else has no effect here is named in `x-segue-ignored` whatever its value; so are "
        "`n_keep` and `n_discard` without `--context-shift`, and settings tell 0 for them.",
        "The server checks the values, and says nothing.",
    ),
    Difference(
        "With `--context-shift` an answer depends on the tokens that stayed, as if they were its prompt, with every "
        "model; at the least a sixteenth of the context goes. Ten contexts are the most that an answer has.",
        "The server keeps what was computed of them, which still knows of those that went, and goes on without end. It "
        "fails with `n_cmpl` above 1, and leaves shifts out where layers see a part of the context only.",
    ),
    Difference(
        "What fills a gap ends where the context is full.",
        "The server drops the beginning of its layout, and goes on without that.",
    ),
    Difference(
        "`verbose` is named in `x-segue-ignored`; settings in answers are those of completions alone.",
        "The server repeats the answer in its native shape, which `/completion` has, and lists settings of chats.",
    ),
    Difference(
        "An API key in `Authorization` stands behind `Bearer`; `x-api-key` has it alone.",
        "The server takes it there without a scheme as well, which the header's own rules do not.",
    ),
    Difference(
        "The `models` of `/v1/models` have their size, digest, date and details.",
        "The server leaves these texts empty. They stay texts here, the size too.",
    ),
    Difference(
        "`model_path` is the file's name alone.",
        "Clients must not learn paths of the server.",
    ),
    Difference(
        "A method that a path does not have is answered with 405, and a path that is not served with what was "
        "probably meant.",
        "The server answers both with 404 and `File Not Found`.",
    ),
    Difference(
        "With `--cors-origin *`, credentials are not allowed; the headers that may be sent are those that "
        "were asked for.",
        "The server lets every page use every cookie, and browsers take `*` as a name beside credentials.",
    ),
    Difference(
        "`model` in answers is the name the request used, if that is a served name or alias.",
        "The server answers with its first alias, whatever was asked for.",
    ),
    Difference(
        "`id_slot` is a label for `/slots/{id_slot}`: it chooses no memory, answers say it as it was sent, and -1 "
        "without it.",
        "Cached prefixes belong to all slots here, so that any may serve any request.",
    ),
)
