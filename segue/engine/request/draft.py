"""Drafts for speculative decoding by prompt lookup: the tokens that followed the last three tokens earlier in the text.

Draft tokens use spare rows of a step. A sequence whose drafts are rejected drafts less often.
Drafts never change the output: a draft token is accepted only if the sampler draws the same token.
"""

_GRAM = 3
_LONGEST = 8
_LONGEST_PAUSE = 64  # steps
_MOST_INDEXED = 256  # prompt tokens per step: indexing a long prompt must not delay the step


class GramIndex:
    """N-gram → the latest position of the token that follows it."""

    def __init__(self, start: int) -> None:
        self._follows: dict[tuple[int, ...], int] = {}
        self._next = max(start, _GRAM)

    def extend(self, tokens: list[int], end: int, most: int) -> None:
        """Index up to position `end`, but at most `most` positions per call."""
        end = min(end, self._next + most)
        for place in range(self._next, end):
            self._follows[tuple(tokens[place - _GRAM : place])] = place
        self._next = max(self._next, end)

    def find(self, gram: tuple[int, ...]) -> int | None:
        return self._follows.get(gram)


class Drafter:
    """Drafts of one sequence. Candidates of a prompt share the prompt's index."""

    def __init__(self, num_prompt: int = 0, mate: "Drafter | None" = None) -> None:
        self._num_prompt = num_prompt
        self._prompt: GramIndex = GramIndex(0) if mate is None else mate._prompt
        self._output = GramIndex(num_prompt)
        self._length = 4
        self._num_misses = 0
        self._pause = 0
        self._is_own = True  # the last draft was found here, not by a draft model

    def draft(self, tokens: list[int], limit: int) -> list[int]:
        """Up to `limit` tokens that may come after `tokens`."""
        self._index(tokens)
        found: list[int] = []
        if self._pause:
            self._pause -= 1
        else:
            found = self._after(tokens, min(limit, self._length))
        self._is_own = bool(found)
        return found

    def knows(self, tokens: list[int]) -> bool:
        """Whether `draft` would find something now."""
        self._index(tokens)
        return not self._pause and bool(self._after(tokens, 1))

    def expects(self, tokens: list[int]) -> bool:
        """The same, for a step that is planned without drafts: it counts for the pause after rejected ones."""
        if self.knows(tokens):
            return True
        self._pause = max(0, self._pause - 1)
        return False

    def learn(self, num_drafted: int, num_accepted: int) -> None:
        """Adapt to how much of the last draft was accepted."""
        if not self._is_own:
            return
        if num_accepted == num_drafted:
            self._length = min(self._length * 2, _LONGEST)
        elif num_accepted < num_drafted / 2:
            self._length = max(self._length // 2, 1)
        if num_accepted:
            self._num_misses = 0
        else:
            self._num_misses += 1
            self._pause = min(2**self._num_misses, _LONGEST_PAUSE)

    def _index(self, tokens: list[int]) -> None:
        self._prompt.extend(tokens, min(self._num_prompt, len(tokens)), _MOST_INDEXED)
        self._output.extend(tokens, len(tokens), len(tokens))

    def _after(self, tokens: list[int], limit: int) -> list[int]:
        gram = tuple(tokens[-_GRAM:])
        start = self._output.find(gram)
        if start is None:
            start = self._prompt.find(gram)
        return [] if start is None else tokens[start : start + max(limit, 0)]
