from segue.bench.fronts import Load, drive, in_turns, streams_each
from segue.bench.harness.served import served


def test_every_token_of_every_stream_is_counted() -> None:
    with served("--runner", "fake") as server:
        load = Load(
            host=server.host,
            port=server.port,
            path="/vllm/v1/completions",
            model="default",
            clients=3,
            streams_each=2,
            num_prompt=5,
            num_output=7,
            seed=1,
            num_ids=200,
        )
        result = drive(load)
    assert result.tokens == 3 * 2 * 7
    assert len(result.first_s) == 3 * 2


def test_no_front_comes_first_in_every_round() -> None:
    rounds = [in_turns(["theirs", "ours"], turn) for turn in (1, 2)]
    assert rounds == [["theirs", "ours"], ["ours", "theirs"]]


def test_few_clients_have_more_streams() -> None:
    assert [streams_each(clients, 2, is_warm_up=False) for clients in (1, 4, 256)] == [16, 4, 2]
    assert streams_each(1, 2, is_warm_up=True) < streams_each(1, 2, is_warm_up=False)
