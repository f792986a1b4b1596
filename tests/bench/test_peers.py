from pathlib import Path

from segue.bench.peers import NUM_LONG, Pieces
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def test_pieces_of_a_large_vocabulary_begin_with_tokens_of_their_own() -> None:
    pieces = Pieces(list(range(500)) * 4, num_vocab=32_000, num_long=NUM_LONG)
    prompts = [pieces.prompt(seed, 64) for seed in range(200)]
    assert {len(prompt) for prompt in prompts} == {64}
    assert len({prompt[0] for prompt in prompts}) == 200


def test_a_small_model_gets_tokens_and_lengths_that_it_has(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["gpt2"])
    pieces = Pieces.of(str(path), list(range(33)))
    assert pieces.num_long == 511  # its context is 512
    for seed in range(50):
        prompt = pieces.prompt(seed, pieces.num_long)
        assert len(prompt) == 511
        assert max(prompt) < 33
