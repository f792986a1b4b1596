"""Drafts for speculative decoding by prompt lookup: the tokens that followed the last three tokens earlier in the text.

Whether such a draft would be right is learned without drafting: each token of the output shows whether what followed
its last three tokens earlier was right. How many tokens are drafted is decided by that and by what they cost
(scheduling/drafts/costs.py).

Drafts never change the output: a draft token is accepted only if the sampler draws the same token.
"""

_GRAM = 3
_MOST_INDEXED = 256  # prompt tokens per step: indexing a long prompt must not delay the step
_RECENT = 1 / 16  # the weight of the last token in a share


class GramIndex:
    """N-gram → the latest position of the token that follows it."""

    def __init__(self, start: int) -> None:
        self._follows: dict[tuple[int, ...], int] = {}
        self.next = max(start, _GRAM)  # the first position that is not indexed

    def extend(self, tokens: list[int], end: int) -> None:
        """Index up to position `end`."""
        for place in range(self.next, end):
            self._follows[tuple(tokens[place - _GRAM : place])] = place
        self.next = max(self.next, end)

    def find(self, gram: tuple[int, ...]) -> int | None:
        return self._follows.get(gram)


class _Share:
    """The share of tokens that were foreseen, of which the last ones count most."""

    def __init__(self, guess: float) -> None:
        self.value = guess
        self._count = 3  # so many tokens the guess counts for

    def learn(self, was_right: bool) -> None:
        self._count += 1
        self.value += (was_right - self.value) * max(_RECENT, 1 / self._count)


class Drafter:
    """Drafts of one sequence. Candidates of a prompt share the prompt's index."""

    def __init__(self, num_prompt: int = 0, mate: "Drafter | None" = None) -> None:
        self._num_prompt = num_prompt
        self._prompt: GramIndex = GramIndex(0) if mate is None else mate._prompt
        self._output = GramIndex(num_prompt)
        # After a token that was foreseen the next one mostly is: both are a copy of the same passage.
        self._first, self._further = _Share(0.3), _Share(0.7)
        self._is_copying = False  # the last token was foreseen

    def forget(self, num_tokens: int) -> None:
        """Tokens were taken out of the text: what is left, so many, is indexed anew, as a prompt is."""
        self._num_prompt = num_tokens
        self._prompt, self._output = GramIndex(0), GramIndex(num_tokens)

    def draft(self, tokens: list[int], count: int) -> list[int]:
        """`count` tokens that may come after `tokens`, or none."""
        start = self._source(tokens)
        if start is None or count <= 0:
            return []
        draft = tokens[start : start + count]
        while len(draft) < count:  # a text that repeats its last tokens may go on with that
            draft.append(draft[start - len(tokens)])
        return draft

    def chances(self, tokens: list[int], count: int, num_open: int = 0) -> list[float]:
        """How likely each of `count` draft tokens is to be accepted, if there is a draft; else nothing.

        `num_open`: so many tokens after `tokens` are not known yet. The draft begins after them, if it foresees them.
        """
        if self._source(tokens) is None:
            return []
        chances = [(self._further if self._is_copying else self._first).value]
        # Products, not powers, whose last bit depends on the system's library.
        while len(chances) < num_open + count:
            chances.append(chances[-1] * self._further.value)
        return chances[num_open : num_open + count]

    def _source(self, tokens: list[int]) -> int | None:
        """Where in the text a draft is found."""
        end = min(self._num_prompt, len(tokens), self._prompt.next + _MOST_INDEXED)
        self._prompt.extend(tokens, end)
        for place in range(self._output.next, len(tokens)):
            start = self._find(tokens, place)
            if start is not None:
                was_right = tokens[start] == tokens[place]
                (self._further if self._is_copying else self._first).learn(was_right)
            self._is_copying = start is not None and tokens[start] == tokens[place]
            self._output.extend(tokens, place + 1)
        return self._find(tokens, len(tokens))

    def _find(self, tokens: list[int], place: int) -> int | None:
        gram = tuple(tokens[place - _GRAM : place]) if place >= _GRAM else ()
        start = self._output.find(gram)
        return self._prompt.find(gram) if start is None else start
