"""A fold over the events of one request: what an answer that is not streamed is made from."""

from collections import Counter

from msgspec.structs import astuple

from segue.types import (
    CompletionRequest,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Progress,
    Prompted,
    Searching,
    TokenScore,
    Usage,
)


class Choice:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.tokens: list[int] = []
        self.scores: list[TokenScore] = []
        self.finished = Finished(0, "length", "max_tokens", 0)

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Tally:
    """All events so far. They are the whole answer once `is_done`."""

    def __init__(self, request: CompletionRequest):
        self.n = request.n
        self.prompts = [Prompted(prompt, (), 0) for prompt in range(len(request.prompts))]
        self.choices = [Choice() for _ in range(len(request.prompts) * request.n)]
        self.usage = Usage(0, 0, 0)
        self.is_done = False

    def push(self, event: Event) -> None:
        match event:
            case Delta():
                choice = self.choices[event.choice]
                choice.texts.append(event.text)
                choice.tokens += event.tokens
                choice.scores += event.scores or ()
            case Prompted():
                self.prompts[event.prompt] = event
            case Finished():
                self.choices[event.choice].finished = event
            case Progress() | Searching():
                pass  # worth telling only while it goes on
            case Done():
                self.usage = event.usage
                self.is_done = True
            case Failed():
                raise TypeError("a failed request has nothing to fold")


class Meter:
    """Usage so far, for streams that report it with every chunk. Ends equal to Done's."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.usage = _NONE  # of the request
        self._prompts: dict[int, Usage] = {}
        self._generated: Counter[int] = Counter()  # tokens, by choice

    def push(self, event: Event) -> None:
        read, generated, cached = astuple(self.usage)
        if isinstance(event, Delta):
            self._generated[event.choice] += len(event.tokens)
            self.usage = Usage(read, generated + len(event.tokens), cached)
        elif isinstance(event, Prompted):
            prompt = self._prompts[event.prompt] = Usage(len(event.tokens), 0, event.num_cached)
            self.usage = Usage(
                read + prompt.prompt_tokens, generated, cached + prompt.cached_tokens
            )

    def usage_of(self, choice: int) -> Usage:
        """Of one choice and its prompt."""
        prompt = self._prompts.get(choice // self._n, _NONE)
        return Usage(prompt.prompt_tokens, self._generated[choice], prompt.cached_tokens)


_NONE = Usage(0, 0, 0)
