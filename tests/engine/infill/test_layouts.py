"""The token prompts of every family, as tables: control tokens are shown in [brackets], text as it is."""

from pathlib import Path

import pytest

from segue.engine.infill.layouts import FimPrompt, end_tokens, lay_out, lay_out_plain
from segue.engine.seam import FimTokens, Vocab
from segue.errors import InvalidField, PromptTooLong
from segue.runners.fake import FakeVocab
from segue.runners.llama.runner import LlamaVocab
from segue.types import Infill, Prompt, Share, Snippet, Split
from tests.support.models.tiny_gguf import write_tiny_gguf

BEFORE, TYPED, AFTER = "def f(x):\n", "  ret", "\n\nprint(f(1))\n"
LONG = "\n# and so on, until it does not pay to read it again at every keystroke"


def ask(suffix: str = AFTER, **fields: object) -> Infill:
    return Infill(suffix=Prompt((suffix,)), **fields)  # type: ignore[arg-type]


def lay(vocab: Vocab, infill: Infill, prompt: str = BEFORE + TYPED, room: int = 500) -> FimPrompt:
    assert vocab.fim is not None
    return lay_out([Prompt((prompt,))], infill, vocab, vocab.fim, room)[0]


def spell(vocab: Vocab, tokens: list[int]) -> str:
    pieces = [(vocab.piece(t).decode(), vocab.is_control(t)) for t in tokens]
    return "".join(f"[{piece}]" if is_control else piece for piece, is_control in pieces)


QWEN = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
STARCODER = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
SANTACODER = ("<fim-prefix>", "<fim-suffix>", "<fim-middle>")
CODELLAMA = ("<PRE>", "<SUF>", "<MID>")
DEEPSEEK = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")
SEED_CODER = ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")
CODESTRAL = ("[PREFIX]", "[SUFFIX]")

PSM = "[{pre}]{before}{typed}[{suf}]{after}[{mid}]"
PSM_LINE = "[{pre}]{before}[{suf}]{after}[{mid}]{typed}"
SPM = "[{suf}]{after}[{pre}]{before}{typed}[{mid}]"
SPM_INSIDE = "[{pre}][{suf}]{after}[{mid}]{before}{typed}"

TABLE = [
    # family, its tokens, order → layout with a short suffix, with a long one
    ("Qwen", QWEN, "auto", PSM, PSM_LINE),
    ("Qwen", QWEN, "psm", PSM, PSM),
    ("Qwen", QWEN, "spm", SPM, SPM),
    ("CodeGemma", QWEN, "auto", PSM, PSM_LINE),
    ("StarCoder", STARCODER, "auto", PSM, PSM_LINE),
    ("StarCoder", STARCODER, "psm", PSM, PSM),
    ("Granite", STARCODER, "spm", SPM_INSIDE, SPM_INSIDE),
    ("SantaCoder", SANTACODER, "auto", PSM, PSM_LINE),
    ("SantaCoder", SANTACODER, "spm", SPM_INSIDE, SPM_INSIDE),
    ("CodeLlama", CODELLAMA, "auto", PSM, PSM_LINE),
    ("CodeLlama", CODELLAMA, "spm", SPM_INSIDE, SPM_INSIDE),
    ("DeepSeek", DEEPSEEK, "auto", PSM, PSM_LINE),
    ("DeepSeek", DEEPSEEK, "spm", SPM, SPM),
    ("Seed-Coder", SEED_CODER, "auto", SPM, SPM),
    ("Seed-Coder", SEED_CODER, "spm", SPM, SPM),
    ("Codestral", CODESTRAL, "auto", SPM[: -len("[{mid}]")], SPM[: -len("[{mid}]")]),
]


@pytest.mark.parametrize(("family", "controls", "order", "short", "long"), TABLE)
@pytest.mark.parametrize("add_bos", [False, True])
def test_each_family_gets_its_own_tokens_in_its_own_order(
    tmp_path: Path,
    family: str,
    controls: tuple[str, ...],
    order: str,
    short: str,
    long: str,
    add_bos: bool,
) -> None:
    path = tmp_path / "x.gguf"
    write_tiny_gguf(path, name=family, fim=False, control_tokens=controls, add_bos=add_bos)
    vocab = LlamaVocab(path)
    names = dict(zip(("pre", "suf", "mid"), (*controls, ""), strict=False))
    for suffix, layout in ((AFTER, short), (AFTER + LONG, long)):
        laid = lay(vocab, ask(suffix, order=order))
        expected = layout.format(before=BEFORE, typed=TYPED, after=suffix, **names)
        assert spell(vocab, laid.tokens) == ("[<|endoftext|>]" if add_bos else "") + expected
        assert laid.text == BEFORE + TYPED
        assert laid.split.num_dropped == 0
    vocab.close()


class NotingVocab(FakeVocab):
    """Remembers the texts that were made tokens of."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        self.texts.append(text)
        return super().tokenize(text, add_special, parse_special)


@pytest.mark.parametrize(
    ("infill", "texts"),
    [
        (ask(), [BEFORE + TYPED]),
        (ask(LONG, order="spm"), [BEFORE + TYPED]),
        (ask(LONG), [BEFORE, TYPED]),
    ],
)
def test_a_line_is_a_text_of_its_own_where_a_marker_comes_before_it(
    infill: Infill, texts: list[str]
) -> None:
    """Else the blanks at its start belong to the line's end before them: in many vocabularies they are one token."""
    vocab = NotingVocab()
    lay(vocab, infill)
    assert [text for text in vocab.texts if text in BEFORE + TYPED] == texts


def test_a_model_that_knows_the_suffix_first_only_says_so(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=SEED_CODER)
    with pytest.raises(InvalidField) as caught:
        lay(LlamaVocab(path), ask(order="psm"))
    assert caught.value.param == "infill_order"


def test_repository_context_as_qwen_knows_it() -> None:
    snippets = (Snippet("a = 1\n", "a.py"), Snippet("b = 2"))
    asked = ask(snippets=snippets, repo="proj", filename="c.py")
    vocab = FakeVocab()
    assert spell(vocab, lay(vocab, asked).tokens) == (
        "[<|repo_name|>]proj\n[<|file_sep|>]a.py\na = 1\n[<|file_sep|>]untitled\nb = 2\n"
        f"[<|file_sep|>]c.py\n[<|fim_prefix|>]{BEFORE}{TYPED}[<|fim_suffix|>]{AFTER}[<|fim_middle|>]"
    )


def test_repository_context_as_starcoder_2_knows_it(tmp_path: Path) -> None:
    controls = (*STARCODER, "<repo_name>", "<file_sep>")
    vocab = LlamaVocab(write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=controls))
    snippets = (Snippet("a = 1\n", "a.py"),)
    files = "[<repo_name>]proj[<file_sep>]a.py\na = 1\n[<file_sep>]"

    def spelled(order: str) -> str:
        asked = ask(snippets=snippets, repo="proj", filename="c.py", order=order)
        return spell(vocab, lay(vocab, asked).tokens)

    inside = f"c.py\n{BEFORE}{TYPED}"  # to it the name is the first line of the file
    assert spelled("psm") == f"{files}[<fim_prefix>]{inside}[<fim_suffix>]{AFTER}[<fim_middle>]"
    assert spelled("spm") == f"{files}[<fim_prefix>][<fim_suffix>]{AFTER}[<fim_middle>]{inside}"


def test_a_name_inside_the_prefix_stays_where_the_file_is_cut(tmp_path: Path) -> None:
    controls = (*STARCODER, "<file_sep>")
    vocab = LlamaVocab(write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=controls))
    laid = lay(vocab, ask(filename="c.py"), "x = 1\n" * 100, room=60)
    assert len(laid.tokens) <= 60
    assert spell(vocab, laid.tokens).startswith("[<file_sep>][<fim_prefix>]c.py\n")


def test_mellum_has_the_suffix_first(tmp_path: Path) -> None:
    controls = (*STARCODER, "<filename>")
    path = tmp_path / "x.gguf"
    write_tiny_gguf(path, name="Mellum 4b Base", fim=False, control_tokens=controls)
    vocab = LlamaVocab(path)
    asked = ask(snippets=(Snippet("a = 1\n", "a.py"),), filename="c.py")
    assert spell(vocab, lay(vocab, asked).tokens) == (
        "[<filename>]a.py\na = 1\n[<filename>]c.py\n"
        f"[<fim_suffix>]{AFTER}[<fim_prefix>]{BEFORE}{TYPED}[<fim_middle>]"
    )


def test_snippets_are_plain_text_where_no_token_separates_files(tmp_path: Path) -> None:
    vocab = LlamaVocab(write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=DEEPSEEK))
    asked = ask(snippets=(Snippet("a = 1", "a.py"),), filename="c.py")
    expected = f"--- a.py ---\na = 1\n--- c.py ---\n[<｜fim▁begin｜>]{BEFORE}{TYPED}"
    assert spell(vocab, lay(vocab, asked).tokens).startswith(expected)
    [plain] = lay_out_plain([Prompt((BEFORE,))], asked, vocab, 500)
    assert spell(vocab, plain.tokens) == f"--- a.py ---\na = 1\n--- c.py ---\n{BEFORE}"
    assert plain.text == BEFORE


def test_the_files_of_a_repository_that_no_token_names_are_named_by_it() -> None:
    class NoRepo(FakeVocab):
        fim = FimTokens(258, 259, 260, file_sep=263)

    asked = ask(snippets=(Snippet("a\n", "a.py"),), repo="proj", filename="c.py")
    start = "[<|file_sep|>]proj/a.py\na\n[<|file_sep|>]proj/c.py\n[<|fim_prefix|>]"
    assert spell(NoRepo(), lay(NoRepo(), asked).tokens).startswith(start)
    [plain] = lay_out_plain([Prompt((BEFORE,))], ask(repo="proj"), FakeVocab(), 500)
    assert spell(FakeVocab(), plain.tokens) == f"--- proj/untitled ---\n{BEFORE}"


def test_markers_spelled_out_in_a_file_are_text() -> None:
    vocab = FakeVocab()
    laid = lay(vocab, ask("<|fim_middle|>"), prompt="<|endoftext|>")
    assert spell(vocab, laid.tokens) == (
        "[<|fim_prefix|>]<|endoftext|>[<|fim_suffix|>]<|fim_middle|>[<|fim_middle|>]"
    )


def test_the_end_of_the_prefix_and_the_beginning_of_the_suffix_are_kept() -> None:
    vocab = FakeVocab()
    snippets = (Snippet("s" * 50),)
    laid = lay(vocab, ask("y" * 400 + "z" * 400, snippets=snippets), "a" * 400 + "b" * 400, 300)
    text = spell(vocab, laid.tokens)
    assert len(laid.tokens) <= 300
    assert "a" not in text.replace("middle", "").replace("fim_prefix", "").replace("file_sep", "")
    assert text.count("b") > 150
    assert text.count("y") > 40
    assert "z" not in text
    assert "ss" not in text
    extra = Share(0, len("?untitled\n\n") + 50)
    prefix, suffix = Share(text.count("b"), 800), Share(text.count("y"), 800)
    assert laid.split == Split(prefix, suffix, extra)
    num_kept = prefix.kept + suffix.kept
    assert laid.split.num_dropped == 1600 + extra.given - num_kept


def test_names_that_leave_no_room_are_refused() -> None:
    with pytest.raises(PromptTooLong):
        lay(FakeVocab(), ask(filename="f" * 300), room=200)


class SpacingVocab(FakeVocab):
    """Puts a space before every text, as SentencePiece does."""

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return super().tokenize(" " + text, add_special, parse_special)


@pytest.mark.parametrize(("order", "tail"), [("psm", "[<|fim_middle|>]"), ("auto", "")])
def test_only_the_beginning_of_a_file_gets_the_tokenizers_space(order: str, tail: str) -> None:
    """As CodeLlama and Codestral were trained: "<PRE> prefix<SUF>suffix<MID>"."""
    vocab = SpacingVocab()
    text = spell(vocab, lay(vocab, ask("after" + LONG, order=order)).tokens)
    assert text.startswith(f"[<|fim_prefix|>] {BEFORE}")
    assert f"[<|fim_suffix|>]after{LONG}[<|fim_middle|>]" in text
    assert text.endswith(tail or f"[<|fim_middle|>]{TYPED}")


def test_a_callers_own_bos_is_not_doubled() -> None:
    class WithBos(FakeVocab):
        adds_bos = True

    vocab = WithBos()
    [laid] = lay_out([Prompt(((vocab.bos, 97),))], ask("b"), vocab, FakeVocab.fim or _no(), 100)
    assert spell(vocab, laid.tokens) == (
        "[<|begin|>][<|fim_prefix|>]a[<|fim_suffix|>]b[<|fim_middle|>]"
    )


def _no() -> FimTokens:
    raise AssertionError("the fake vocabulary has FIM tokens")


def test_every_token_around_a_middle_ends_it(tmp_path: Path) -> None:
    controls = (*QWEN, "<|file_separator|>", "<|other|>")
    vocab = LlamaVocab(write_tiny_gguf(tmp_path / "x.gguf", fim=False, control_tokens=controls))
    assert vocab.fim is not None
    names = {vocab.piece(token).decode() for token in end_tokens(vocab, vocab.fim)}
    assert names == {"<|endoftext|>", *QWEN, "<|file_separator|>"}


@pytest.mark.parametrize("has_fim", [True, False])
def test_the_start_of_a_file_begins_with_bos(tmp_path: Path, has_fim: bool) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", fim=has_fim, add_bos=True)
    vocab, start = LlamaVocab(path), Prompt(("",))
    if vocab.fim is None:
        tokens = lay_out_plain([start], ask(), vocab, 500)[0].tokens
        assert spell(vocab, tokens) == "[<|endoftext|>]"
    else:
        tokens = lay_out([start], ask(), vocab, vocab.fim, 500)[0].tokens
        assert spell(vocab, tokens).startswith("[<|endoftext|>][<|fim_prefix|>][<|fim_suffix|>]")


class Counting(FakeVocab):
    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        self.read.append(text)
        return super().tokenize(text, add_special, parse_special)


@pytest.mark.parametrize("has_fim", [True, False])
def test_what_stands_around_is_read_once_for_all_prompts(has_fim: bool) -> None:
    """It may be megabytes, and of prompts there may be a thousand."""
    vocab, prompts = Counting(), [Prompt((text,)) for text in ("one", "two", "three")]
    infill = ask("after", snippets=(Snippet("other", "o.py"),), filename="f.py")
    if has_fim:
        laid = lay_out(prompts, infill, vocab, vocab.fim or _no(), 500)
    else:
        laid = lay_out_plain(prompts, infill, vocab, 500)
    assert [each.text for each in laid] == ["one", "two", "three"]
    assert len({len(each.tokens) for each in laid}) == 2
    for text in ("other", "f.py", *(["after"] if has_fim else [])):
        assert sum(text in read for read in vocab.read) == 1, vocab.read
