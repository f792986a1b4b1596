"""Divides a grammar into lexemes, for a parser whose lexer always takes the longest match.

The longer a lexeme, the cheaper the parser; but one that runs on where the next should begin makes texts of the grammar
impossible. So everything regular starts as one lexeme, the lexer is simulated over all sets of lexemes that can be
expected together, and a lexeme that runs on is taken apart, down to single characters if need be.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from segue.engine.constraints.automaton import Automaton, State, Undecided, Work
from segue.engine.constraints.grammar import (
    Chars,
    Edge,
    Either,
    Free,
    GrammarError,
    Lexeme,
    Literal,
    Nested,
    Node,
    Pieces,
    Range,
    Ref,
    Repeat,
    Rules,
    Seq,
    Tokens,
    Watched,
    children,
    merged,
    refs,
    seq,
)
from segue.engine.constraints.regular import regular_names

_MAX_ROUNDS = 64
_MAX_WORK = 2_000_000

Lexemes = frozenset[Lexeme]
_NONE: Lexemes = frozenset()


def cut(rules: Rules) -> Rules:
    """The rules for the parser, whose leaves are lexemes. Lexemes refer to the regular rules among `rules`."""
    apart: set[Node] = set()
    regular = regular_names(rules)
    work = Work(_MAX_WORK)
    for _ in range(_MAX_ROUNDS):
        shaped = _Shaper(rules, regular, apart).all()
        if isinstance(shaped["root"], Lexeme):
            return shaped
        try:
            running_on = _Simulation(shaped, rules, work).running_on()
        except (Undecided, RecursionError):
            break
        if not running_on:
            return shaped
        apart |= {lexeme.node for lexeme in running_on}
    return _Shaper(rules, regular, apart, by_character=True).all()  # dear, but no text is lost


@dataclass
class _Shaper:
    rules: Rules
    regular: frozenset[str]
    apart: set[Node]  # regular, but no longer one lexeme
    by_character: bool = False  # nothing longer is one lexeme

    def all(self) -> Rules:
        shaped: Rules = {}
        stack = ["root"]
        while stack:
            name = stack.pop()
            if name not in shaped:
                shaped[name] = self.shape(self.rules[name])
                stack.extend(refs(shaped[name]))
        return shaped

    def shape(self, node: Node) -> Node:
        if isinstance(node, Tokens) and self.by_character:
            raise GrammarError(f"{node.place}: too much must be looked at to tell it from text")
        if isinstance(node, Nested | Tokens):
            return node
        if isinstance(node, Pieces):
            return seq(*map(self.shape, node.items))
        if self._is_regular(node) and not self._is_apart(node):
            return Lexeme(node)
        match node:
            case Literal(text):
                return Seq(tuple(Lexeme(Literal(c)) for c in text))
            case Seq(items):
                is_apart = self._is_apart(node)
                return seq(*(self.shape(n) for n in (items if is_apart else self._runs(items))))
            case Either(options):
                return Either(tuple(map(self.shape, options)))
            case Repeat(item, least, most):
                return Repeat(self.shape(item), least, most)
            case Free(place=place) | Watched(place=place) if self.by_character:
                raise GrammarError(f"{place}: too much must be looked at to tell where this ends")
            case Free(place=place) | Watched(place=place):
                raise GrammarError(
                    f"{place}: where this text ends cannot be told from what follows it; "
                    "put into excludes what follows it begins with"
                )
        return node

    def _runs(self, items: tuple[Node, ...]) -> list[Node]:
        """Joins neighbouring regular parts."""
        runs: list[list[Node]] = []
        was_regular = False
        for item in items:
            is_regular = self._is_regular(item)
            if is_regular and was_regular:
                runs[-1].append(item)
            else:
                runs.append([item])
            was_regular = is_regular
        return [seq(*run) for run in runs]

    def _is_regular(self, node: Node) -> bool:
        return all(name in self.regular for name in refs(node))

    def _is_apart(self, node: Node) -> bool:
        if self.by_character:
            return not (
                isinstance(node, Chars) or (isinstance(node, Literal) and len(node.text) == 1)
            )
        return node in self.apart


class _Simulation:
    """Which lexemes can follow which, and where the longest match would read too much."""

    def __init__(self, shaped: Rules, rules: Rules, work: Work) -> None:
        self._shaped = shaped = {name: _edged(body) for name, body in shaped.items()}
        self._work = work
        self._owed: dict[Lexemes, list[Range]] = {}
        self._checked: set[tuple[Lexemes, State]] = set()
        lexemes = list(dict.fromkeys(_leaves(shaped)))
        self._automaton = Automaton(lexemes, rules, work)
        self._first: dict[str, Lexemes] = dict.fromkeys(shaped, _NONE)
        self._nullable: set[str] = set()
        self._after: dict[str, Lexemes] = dict.fromkeys(shaped, _NONE)  # what follows a rule
        self._follow: dict[Lexeme, Lexemes] = dict.fromkeys(lexemes, _NONE)
        self._settle()

    def running_on(self) -> set[Lexeme]:
        """Lexemes that may read on into the text of a lexeme that should follow."""
        found: set[Lexeme] = set()
        expected = {self._first["root"]}
        waiting = list(expected)
        seen: set[State] = set()  # what can follow a state does not hang on how it was reached
        while waiting:
            lexemes = waiting.pop()
            start: State = frozenset().union(*map(self._automaton.first, lexemes))
            self._check_named(lexemes, start)
            states = [start] if start not in seen else []
            seen.add(start)
            while states:
                for state, ended in self._automaton.steps(states.pop()):
                    if ended:
                        _check_alone(state, ended)
                        found |= self._readers_on(state, ended)
                        after = _NONE.union(*(self._follow[lexeme] for lexeme in ended))
                        self._check_named(after, state)
                        if after not in expected:
                            expected.add(after)
                            waiting.append(after)
                    if state not in seen:
                        seen.add(state)
                        states.append(state)
        return found

    def _readers_on(self, state: State, ended: Lexemes) -> set[Lexeme]:
        if not state:
            return set()
        owed = self._ranges_after(ended)
        automaton = self._automaton
        self._work.spend(len(state))
        found = {automaton.owner[p] for p in state if _meet(automaton.ranges[p], owed)}
        numbers = [lexeme.node.nested.place for lexeme in found if isinstance(lexeme.node, Edge)]
        if numbers:
            raise GrammarError(
                f"{min(numbers)}: where this number ends cannot be told from what follows it"
            )
        return found

    def _check_named(self, expected: Lexemes, state: State) -> None:
        """Where a token that is named may come, no text may be meant by it: the parser takes it for the token.

        `state`: what may be read on there. What else is expected is looked at where it begins.
        """
        if (expected, state) in self._checked:
            return
        self._checked.add((expected, state))
        self._work.spend(len(expected))
        named = [lexeme.node for lexeme in expected if isinstance(lexeme.node, Tokens)]
        text_only = self._automaton.text_of(state) if named else state
        for text, place in ((text, node.place) for node in named for text in node.texts):
            if self._reads(text_only, text):
                raise GrammarError(
                    f"{place}: where this token may come, its text may come too; keep {text!r} out of that"
                )

    def _reads(self, state: State, text: str) -> bool:
        """Whether this text can be read next, as a part of what may come."""
        automaton = self._automaton
        for c in text:
            after, ended = automaton.after(state, c)
            if not after and not ended:
                return False
            follow = _NONE.union(*(self._follow[lexeme] for lexeme in ended))
            self._work.spend(1 + len(follow))
            state = after.union(*map(automaton.first, follow))
        return bool(text)

    def _ranges_after(self, lexemes: Lexemes) -> list[Range]:
        """What may follow one of these lexemes."""
        if lexemes not in self._owed:
            automaton = self._automaton
            follow = _NONE.union(*(self._follow[lexeme] for lexeme in lexemes))
            positions = frozenset().union(*map(automaton.first, follow))
            owed = merged(r for position in positions for r in automaton.ranges[position])
            self._work.spend(len(positions) + len(owed))
            self._owed[lexemes] = owed
        return self._owed[lexemes]

    # --- what comes first in a rule, and what after a lexeme --------------------------------------

    def _settle(self) -> None:
        used = {name: frozenset(refs(body)) for name, body in self._shaped.items()}
        users: dict[str, list[str]] = defaultdict(list)
        for name, others in used.items():
            for other in others:
                users[other].append(name)
        # What is used comes before what uses it; then the other way round.
        _until_settled(reversed(used), lambda name: users[name] if self._learn_first(name) else ())
        _until_settled(used, lambda name: self._learn_follow(name, used[name]))

    def _learn_first(self, name: str) -> bool:
        body, before = self._shaped[name], (self._first[name], name in self._nullable)
        self._first[name] = self._flow(body, _NONE)
        if self._may_be_empty(body):
            self._nullable.add(name)
        return before != (self._first[name], name in self._nullable)

    def _learn_follow(self, name: str, used: frozenset[str]) -> list[str]:
        """The rules of which more is known now about what follows them."""
        before = {other: self._after[other] for other in used}
        self._flow(self._shaped[name], self._after[name], learn=True)
        return [other for other, after in before.items() if after != self._after[other]]

    def _flow(self, node: Node, after: Lexemes, learn: bool = False) -> Lexemes:
        """The lexemes that can begin this node, or `after` it. Records which lexeme follows which."""
        self._work.spend(8 + len(after) // 8)
        match node:
            case Lexeme():
                if learn:
                    self._follow[node] = _union(self._follow[node], after)
                first = frozenset({node})
                return _union(first, after) if self._automaton.is_nullable(node) else first
            case Ref(name):
                if learn:
                    self._after[name] = _union(self._after[name], after)
                first = self._first[name]
                return _union(first, after) if name in self._nullable else first
            case Seq(items):
                for item in reversed(items):
                    after = self._flow(item, after, learn)
                return after
            case Either(options):
                return _NONE.union(*(self._flow(option, after, learn) for option in options))
            case Repeat(item, least, most):
                again = self._flow(item, _NONE) if most is None or most > 1 else _NONE
                first = self._flow(item, after | again, learn)
                return first | after if least == 0 else first
        return _NONE

    def _may_be_empty(self, node: Node) -> bool:
        match node:
            case Lexeme():
                return self._automaton.is_nullable(node)
            case Ref(name):
                return name in self._nullable
            case Either(options):
                return any(map(self._may_be_empty, options))
            case Repeat(item, least):
                return least == 0 or self._may_be_empty(item)
        return all(map(self._may_be_empty, children(node)))


def _edged(body: Node) -> Node:
    """A nested grammar as what is seen of it from outside: its begin and its end. A token is as a character."""
    if isinstance(body, Tokens):
        return Lexeme(body)
    if not isinstance(body, Nested):
        return body
    return Seq((Lexeme(Edge(body, is_end=False)), Lexeme(Edge(body, is_end=True))))


def _check_alone(state: State, ended: Lexemes) -> None:
    """Once a nested grammar has begun, nothing else may be possible: its lexemes cannot be taken apart."""
    nodes = [lexeme.node for lexeme in ended]
    begun = [node.nested for node in nodes if isinstance(node, Edge) and not node.is_end]
    is_one = len(begun) == len(nodes) and len({nested.text for nested in begun}) == 1
    if begun and (state or not is_one):
        place = min(nested.place for nested in begun)
        raise GrammarError(
            f"{place}: where this JSON begins, something else may begin in the same way; "
            "write several schemas as one with anyOf, and other text so that it begins otherwise"
        )
    tokens = [node for node in nodes if isinstance(node, Tokens)]
    is_any = any(token.is_any for token in tokens)
    if len(tokens) > 1 or (is_any and (state or len(ended) > 1)):
        raise GrammarError(
            f"{min(token.place for token in tokens)}: where this token may come, it may also be meant otherwise; "
            "exclude what else may come there, which must be tokens"
        )


def _until_settled(names: Iterable[str], learn: Callable[[str], Iterable[str]]) -> None:
    """Call `learn` for each name, and again for each name that it returns, until it returns none."""
    waiting = deque(names)
    queued = set(waiting)
    while waiting:
        name = waiting.popleft()
        queued.discard(name)
        for other in learn(name):
            if other not in queued:
                queued.add(other)
                waiting.append(other)


def _union(one: Lexemes, other: Lexemes) -> Lexemes:
    """Without a copy where one of them has nothing: of long sequences such sets take much memory."""
    return one | other if one and other else one or other


def _meet(ranges: Iterable[Range], others: Sequence[Range]) -> bool:
    """Whether they share some. `others`: sorted, and none touches another."""
    for low, high in ranges:
        place = bisect_right(others, high, key=lambda other: other[0])
        if place and others[place - 1][1] >= low:
            return True
    return False


def _leaves(rules: Rules) -> list[Lexeme]:
    found: list[Lexeme] = []
    stack = list(rules.values())
    while stack:
        node = stack.pop()
        if isinstance(node, Lexeme):
            found.append(node)
        stack.extend(children(node))
    return found
