"""What is drawn under every kind of constraint is valid, as somebody else checks it."""

import json
from pathlib import Path

import pytest

from segue import config
from segue.assembly.runners import choose_loader
from segue.models.progress import silent
from segue.runners.fake import VOCAB_SIZE, FakeRunner, default_capabilities
from segue.runners.llama.runner import LlamaLoader
from segue.types import Constraint, Sampling
from tests.engine.constraints.guided import compiled, is_prefix
from tests.engine.constraints.structural.oracle import NUMBER, Format, accepts
from tests.engine.harness import Bench, RequestEvents, ask
from tests.support.constraints import Case, cases

CASES = list(cases())
HOT = Sampling(seed=5, temperature=1.5)


def check_outputs(bench: Bench, cases: list[Case], num: int, max_tokens: int, prompt: str) -> int:
    """Draws for all cases at once. Returns how many outputs were complete."""
    requests = [
        ask(prompt, constraint=constraint, n=num, max_tokens=max_tokens, sampling=HOT)
        for _, constraint, _ in cases
    ]
    stories = bench.run(*requests)
    return sum(check(bench, *pair) for pair in zip(cases, stories, strict=True))


def check(bench: Bench, case: Case, story: RequestEvents) -> int:
    name, constraint, is_valid = case
    width = bench.capabilities.vocab_size
    for choice, finished in story.finished.items():
        text = story.texts[choice]
        assert finished.cause in ("eos", "constraint", "max_tokens"), (name, text, finished)
        if finished.reason == "stop":
            assert is_valid(text), (name, text)
        else:
            grammar = bench.compiler.compile(constraint)
            assert is_prefix(grammar, story.tokens[choice], width), (name, text)
    return sum(finished.reason == "stop" for finished in story.finished.values())


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_outputs_are_valid(case: Case) -> None:
    bench = Bench(FakeRunner(default_capabilities(), end_bias=2.0))
    assert check_outputs(bench, [case], num=6, max_tokens=400, prompt="x") > 0


@pytest.mark.parametrize("case", CASES[::4], ids=[case[0] for case in CASES[::4]])
def test_outputs_of_a_real_tokenizer_are_valid(case: Case, tiny: Bench) -> None:
    check_outputs(tiny, [case], num=4, max_tokens=60, prompt="the")


@pytest.fixture(scope="module")
def tiny(tiny_gguf: Path) -> Bench:
    loaded = LlamaLoader(str(tiny_gguf), "tiny", threads=1)()  # no spinning beside other tests
    return Bench(loaded.runner, loaded.vocab)


@pytest.mark.model
@pytest.mark.timeout(900)
def test_outputs_of_the_embedded_model_are_valid(embedded_gguf: Path) -> None:
    settings = config.load({"num_slots": 64})
    loaded = choose_loader(settings, embedded_gguf, "default", silent, adapters=(), drafts=False)()
    bench = Bench(loaded.runner, loaded.vocab, chunk_rows=256)
    assert check_outputs(bench, CASES, 1, 60, "Here is one: ") > 25
    loaded.runner.close()


@pytest.mark.parametrize(
    ("constraint", "texts"),
    [
        (
            Constraint(kind="choice", value=("red", "redder", 'a "b"\n')),
            {"red", "redder", 'a "b"\n'},
        ),
        (Constraint(kind="grammar", value='root ::= "x" | "yy"'), {"x", "yy"}),
        (Constraint(kind="grammar", value='start: "x" | "yy"'), {"x", "yy"}),
        (
            Constraint(
                kind="llguidance",
                value='{"grammars": [{"lark_grammar": "start: \\"<\\" @v"},'
                ' {"name": "v", "json_schema": {"enum": [1, "two"]}}]}',
            ),
            {"<1", "<1.0", '<"two"'},
        ),
        (Constraint(kind="json_schema", value="true", whitespace=""), None),
    ],
)
def test_other_kinds(constraint: Constraint, texts: set[str] | None) -> None:
    story = Bench().run(ask("x", constraint=constraint, n=16, max_tokens=40, sampling=HOT))[0]
    assert {f.reason for f in story.finished.values()} <= {"stop", "length"}
    if texts is not None:
        assert set(story.texts.values()) <= texts


def test_a_structural_tag_holds_its_schema() -> None:
    tags = '{"structures": [{"begin": "<n=", "schema": {"enum": [10, 20]}, "end": ">"}], "triggers": ["<n"]}'
    grammar = compiled(Constraint(kind="structural_tag", value=tags))
    assert is_prefix(grammar, list(b"free text <n=10> more"), VOCAB_SIZE)
    assert not is_prefix(grammar, list(b"free text <n=3"), VOCAB_SIZE)
    assert not is_prefix(grammar, list(b"free text <nope"), VOCAB_SIZE)


def test_texts_drawn_under_a_format_fit_it() -> None:
    schema = {"type": "json_schema", "json_schema": NUMBER}
    one = {"type": "tag", "begin": "<n=", "content": schema, "end": ">"}
    think = {"type": "tag", "begin": "(", "content": {"type": "any_text"}, "end": ")"}
    free = {"type": "triggered_tags", "triggers": ["<"], "tags": [one], "at_least_one": True}
    own: Format = {"type": "sequence", "elements": [think, free]}
    value = json.dumps({"type": "structural_tag", "format": own})
    constraint = Constraint(kind="structural_tag", value=value)
    bench = Bench(FakeRunner(default_capabilities(), end_bias=4.0))
    story = bench.run(ask("x", constraint=constraint, n=16, max_tokens=400, sampling=HOT))[0]
    whole = [story.texts[i] for i, end in story.finished.items() if end.reason == "stop"]
    assert len(whole) > 4
    assert all(accepts(own, text) for text in whole)


def test_tokens_that_are_asked_for_are_drawn_and_leave_no_text() -> None:
    begin, end = ({"type": "token", "token": token} for token in ("<|repo_name|>", "<|file_sep|>"))
    schema = {"type": "json_schema", "json_schema": {"enum": [10, 20]}}
    own = {"type": "tag", "begin": begin, "content": schema, "end": end}
    value = json.dumps({"type": "structural_tag", "format": own})
    constraint = Constraint(kind="structural_tag", value=value)
    asked = ask("x", constraint=constraint, n=8, max_tokens=9, sampling=HOT)
    story = Bench(FakeRunner(default_capabilities())).run(asked)[0]
    assert {ended.reason for ended in story.finished.values()} == {"stop"}
    assert set(story.texts.values()) == {"10", "20"}
    for choice, text in story.texts.items():
        assert story.tokens[choice] == [262, *text.encode(), 263]
