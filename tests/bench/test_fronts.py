from segue.bench.fronts import Load, drive
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
