"""Choices of many options: none is lost, none is added, and the way to each is short."""

from itertools import product
from random import Random

from segue.engine.constraints.grammar import Either, Literal, Node, Ref, Rules, Seq, children, parts
from segue.engine.constraints.schemas.rules.choice import FEW, Choice, factored

NUM = 100


def texts(node: Node, rules: Rules) -> list[str]:
    """All that it allows, in order."""
    match node:
        case Literal(text):
            return [text]
        case Ref(name):
            return texts(rules[name], rules)
        case Either(options):
            return [text for option in options for text in texts(option, rules)]
        case Seq(items):
            return ["".join(each) for each in product(*(texts(item, rules) for item in items))]
    raise TypeError(node)


def test_a_choice_has_its_options_after_each_that_is_added() -> None:
    rules: Rules = {}

    def rule(body: Node) -> Node:
        rules[f"r{len(rules)}"] = body
        return Ref(f"r{len(rules) - 1}")

    choice = Choice(rule)
    assert not choice
    for number in range(NUM):
        choice.add(Literal(f"{number}"))
        assert texts(choice.node, rules) == [f"{n}" for n in range(number, -1, -1)]
        assert isinstance(choice.node, Literal) or len(choice.node.options) <= 4 * FEW  # type: ignore[union-attr]
    assert len(rules) < NUM / (FEW - 1)  # they are shared
    choice.clear()
    assert not choice


def test_options_that_begin_alike_are_one_up_to_where_they_differ() -> None:
    for seed in range(50):
        random = Random(seed)
        options = [
            Seq(tuple(Literal(random.choice("abc")) for _ in range(random.randrange(1, 12))))
            for _ in range(random.randrange(1, 30))
        ]
        distinct = list(dict.fromkeys(options))
        made = factored(distinct)
        assert sorted(texts(made, {})) == sorted(text for o in distinct for text in texts(o, {}))
        choices = [made] if isinstance(made, Either) else []
        firsts = [next(parts(option), None) for choice in choices for option in choice.options]
        assert len(firsts) == len(set(firsts))


def test_options_that_go_on_alike_for_long_do_not_nest_without_end() -> None:
    made = factored([Seq((Literal("a"),) * length) for length in range(1, 100)])
    assert sorted(map(len, texts(made, {}))) == list(range(1, 100))
    depth, level = 0, [made]
    while level := [child for node in level for child in children(node)]:
        depth += 1
    assert depth < 20
