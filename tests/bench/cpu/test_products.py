import json

from click.testing import CliRunner

from segue.bench.cpu.products import main


def test_it_ends_in_one_line_of_json() -> None:
    sizes = ["--types", "Q4_K,F16", "--threads", "2", "--columns", "256", "--outputs", "64"]
    done = CliRunner().invoke(main, sizes)
    assert done.exit_code == 0, done.output
    figures = json.loads(done.output.splitlines()[-1])
    assert set(figures["types"]) == {"Q4_K", "F16"}
    assert figures["types"]["Q4_K"]["gmacs_4"] > 0
