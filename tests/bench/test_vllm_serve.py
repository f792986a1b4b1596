import json

from segue.bench.harness.served import served
from segue.bench.vllm_serve import Figures, Load, Result, drive, in_turns, streams_each, table


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
    assert len(result.first_s) == len(result.step_s) == 3 * 2


def test_speeds_are_the_best_and_times_the_medians_of_all_rounds() -> None:
    theirs, ours = Figures(), Figures()
    for elapsed_s in (2.0, 4.0):
        theirs.add(Result(400, [0.010, 0.020], [0.004]), elapsed_s)
        ours.add(Result(400, [0.010, 0.030], [0.002]), elapsed_s / 2)
    *_, line, rows = table({8: {"vllm serve": theirs, "segue": ours}})
    assert line.split()[:4] == ["8", "200", "400", "2.000"]
    assert json.loads(rows) == {"8": [200.0, 400.0, 15.0, 20.0, 4.0, 2.0]}


def test_no_front_comes_first_in_every_round() -> None:
    rounds = [in_turns(["theirs", "ours"], turn) for turn in (1, 2)]
    assert rounds == [["theirs", "ours"], ["ours", "theirs"]]


def test_few_clients_have_more_streams() -> None:
    assert [streams_each(clients, 2, is_warm_up=False) for clients in (1, 4, 256)] == [16, 4, 2]
    assert streams_each(1, 2, is_warm_up=True) < streams_each(1, 2, is_warm_up=False)
