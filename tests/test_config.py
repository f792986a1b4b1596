import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.config import TABLE, Settings, load, user_cache_dir
from segue.errors import SetupError

HOME = {"XDG_CACHE_HOME": "/home/caches"}


def written(folder: Path, text: str) -> Path:
    path = folder / "segue.toml"
    path.write_text(text)
    return path


def test_each_layer_covers_the_one_below(tmp_path: Path) -> None:
    file = written(tmp_path, "host = 'f'\nport = 1\nchunk_rows = 64\nnum_slots = 4\n")
    environ = HOME | {"SEGUE_PORT": "2", "SEGUE_CHUNK_ROWS": "128"}
    got = load({"chunk_rows": "512", "threads": None, "models": ()}, environ, file)
    assert (got.host, got.port, got.chunk_rows, got.num_slots) == ("f", 2, 512, 4)
    assert got.log_level == Settings().log_level


def test_a_setting_knows_where_it_was_given(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 1\nthreads = 1\ncpu_flavour = 'avx2'")
    got = load({"port": 3}, HOME | {"SEGUE_PORT": "2", "SEGUE_CPU": "neon"}, file)
    origins = [got.origin(name) for name in ("port", "cpu_flavour", "threads", "host")]
    assert origins == ["--port", "SEGUE_CPU", f"{file}: threads", "host"]


def test_an_empty_host_is_not_every_address(tmp_path: Path) -> None:
    """`--host "$HOST"` without HOST opened the server to the network."""
    with pytest.raises(SetupError, match="--host must be a text that is not empty, not ''"):
        load({"host": ""}, HOME)
    with pytest.raises(SetupError, match="host must be a text that is not empty"):
        load({}, HOME, written(tmp_path, "host = ''"))


def test_text_is_read_by_the_kind_of_the_setting() -> None:
    environ = HOME | {
        "SEGUE_MODELS": "a.gguf, b.gguf,",
        "SEGUE_PRELOAD": "false",
        "SEGUE_KEEP_ALIVE_S": "2.5",
        "SEGUE_THREADS": "auto",
        "SEGUE_CACHE": "~/elsewhere",
        "SEGUE_RUNNER": "llama",
        "SEGUE_HOST": "",
    }
    got = load({}, environ)
    assert got.models == ("a.gguf", "b.gguf")
    assert (got.preload, got.keep_alive_s, got.threads) == (False, 2.5, None)
    assert (got.cache_dir, got.runner) == (Path.home() / "elsewhere", "llama")
    assert got.host == Settings().host, "an empty variable is not a setting"


def test_flags_come_as_text_or_as_values() -> None:
    got = load({"port": "0", "models": ("a,b.gguf",), "strict_model": True, "threads": 3}, HOME)
    assert (got.port, got.models, got.strict_model, got.threads) == (0, ("a,b.gguf",), True, 3)


def test_commas_part_names_and_adapters_in_flags_too(tmp_path: Path) -> None:
    """As in llama.cpp's; in a file an adapter may have one in its name."""
    flags = {"aliases": ("a, b", "c=d,"), "lora": ("x.gguf,y=z.gguf@0.5",)}
    got = load(flags, HOME)
    assert (got.aliases, got.lora) == (("a", "b", "c=d"), ("x.gguf", "y=z.gguf@0.5"))
    assert load({}, HOME, written(tmp_path, "lora = ['a,b.gguf']")).lora == ("a,b.gguf",)
    with pytest.raises(SetupError, match="--lora is set but holds nothing between its commas"):
        load({"lora": ("a.gguf", "")}, HOME)


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 7")
    assert load({}, HOME | {"SEGUE_CONFIG": str(file)}).port == 7


def test_a_kubernetes_service_named_segue_does_not_set_the_port() -> None:
    assert load({}, HOME | {"SEGUE_PORT": "tcp://10.0.0.1:80"}).port == Settings().port


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", r"there is no setting 'prot'; did you mean port\?"),
        ("xyzzy = 1", "known are: models,"),
        ("[server]\nport = 1", "there is no setting 'server'"),
        ("port = '8080'", "port must be a whole number from 0 to 65535, not '8080'"),
        ("port = 65536", "port must be"),
        ("port = true", "port must be"),
        ("preload = 1", "preload must be true or false, not 1"),
        ("models = 'a.gguf'", "models must be a list of texts"),
        ("models = [1]", "models must be a list of texts"),
        ("runner = 'gpu'", "runner must be one of auto, cpu, llama, fake"),
        ("kv_type = 'q4_0'", "kv_type must be one of f16, q8_0"),
        ("threads = 0", 'threads must be a whole number from 1 to .*, or "auto"'),
        ("keep_alive_s = nan", "keep_alive_s must be a number from 0"),
        ("cache_dir = ''", "cache_dir must be a path"),
        ("port =", "is not TOML"),
        ("host = '\udcff'", "is not TOML"),
    ],
)
def test_a_bad_file_names_the_key_and_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "segue.toml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(SetupError, match=message) as caught:
        load({}, HOME, file)
    assert str(file) in caught.value.message


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors on Windows write one; it was no TOML."""
    file = tmp_path / "segue.toml"
    file.write_text("port = 9000\n", encoding="utf-8-sig")
    assert load({}, HOME, file).port == 9000


def test_bad_text_names_the_variable_or_flag(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="SEGUE_PORT must be a whole number"):
        load({}, HOME | {"SEGUE_PORT": "http"})
    with pytest.raises(SetupError, match="--num-slots must be a whole number from 1 to 256"):
        load({"num_slots": "many"}, HOME)
    with pytest.raises(SetupError, match=r"cannot read .*absent\.toml: No such file"):
        load({}, HOME, tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SEGUE_API_KEYS", "SEGUE_API_KEY"),
        ("SEGUE_CACHE_DIR", "SEGUE_CACHE"),
        ("SEGUE_DRAIN_TIMEOUT", "SEGUE_DRAIN_TIMEOUT_S"),
        ("SEGUE_PORTT", "SEGUE_PORT"),
    ],
)
def test_a_variable_that_is_meant_to_be_another_is_refused(name: str, meant: str) -> None:
    with pytest.raises(SetupError, match=rf"there is no variable {name}; did you mean {meant}\?"):
        load({}, HOME | {name: "x"})


def test_variables_of_others_are_let_alone() -> None:
    others = ("SEGUE_SERVICE_HOST", "SEGUE_PORT_8080_TCP_ADDR", "SEGUE_SERVICE_PORT", "SEGUE_TEAM")
    assert load({}, HOME | dict.fromkeys(others, "x")) == load({}, HOME)


def test_every_setting_has_a_row_and_a_distinct_name() -> None:
    rows = {row.name: row for row in TABLE}
    assert all(row.help for row in TABLE)
    assert len({row.variable for row in TABLE}) == len({row.flag for row in TABLE}) == len(TABLE)
    assert rows["kv_memory_mib"].flag == "--kv-memory-mib"
    assert rows["cache_dir"].variable == "SEGUE_CACHE"
    assert (rows["threads"].kind, rows["threads"].is_optional) == ("int", True)
    assert rows["runner"].choices == ("auto", "cpu", "llama", "fake")


def test_every_default_would_be_accepted_if_written_down(tmp_path: Path) -> None:
    defaults = load({}, HOME)
    assert load({}, {}, written(tmp_path, defaults.as_toml())) == defaults


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(host=texts, models=st.lists(texts), port=st.integers(0, 65535), seconds=st.floats(0, 1e9))
def test_printed_settings_read_back_the_same(
    host: str, models: list[str], port: int, seconds: float
) -> None:
    given = Settings(host=host, models=tuple(models), port=port, keep_alive_s=seconds)
    read = tomllib.loads(given.as_toml())
    assert (read["host"], read["models"], read["port"]) == (host, models, port)
    assert read["keep_alive_s"] == seconds


def test_cache_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert user_cache_dir({}, "linux") == Path("/home/ada/.cache/segue")
    assert user_cache_dir({"XDG_CACHE_HOME": "/x"}, "linux") == Path("/x/segue")
    assert user_cache_dir({"XDG_CACHE_HOME": "relative"}, "linux") == Path("/home/ada/.cache/segue")
    assert user_cache_dir({}, "darwin") == Path("/home/ada/Library/Caches/segue")
    assert user_cache_dir({"LOCALAPPDATA": "/c/local"}, "win32") == Path("/c/local/segue")


@pytest.mark.parametrize("text", [",", " , ,", ",,"])
def test_keys_that_are_none_are_refused(text: str) -> None:
    """A server that was given SEGUE_API_KEY must not start without a key."""
    with pytest.raises(SetupError, match="SEGUE_API_KEY is set but holds nothing"):
        load({}, {"SEGUE_API_KEY": text})


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("0.0.0.0:9000", "0.0.0.0, and port 9000"),
        ("http://localhost:9000/v1", "localhost, and port 9000"),
        ("[::1]", "::1"),
        ("[::1]:9000", "::1, and port 9000"),
    ],
)
def test_an_address_as_other_systems_write_it_is_taken_apart(host: str, meant: str) -> None:
    """OLLAMA_HOST=0.0.0.0:9000 is usual there."""
    with pytest.raises(SetupError) as error:
        load({}, HOME | {"SEGUE_HOST": host})
    assert error.value.message == f"SEGUE_HOST must be an address alone, not {host!r}: {meant}"


@pytest.mark.parametrize("host", ["/run/segue.sock", "segue.sock", "unix:/run/segue"])
def test_unix_sockets_are_addresses(host: str) -> None:
    assert load({"host": host}, HOME).host == host


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "::", "fe80::1%eth0", "1::2:3", "::1"])
def test_other_addresses_are_taken_as_they_are(host: str) -> None:
    assert load({"host": host}, HOME).host == host


@pytest.mark.parametrize("flags", [("a1,b2", "c3"), ("a1", "b2", "c3"), ()])
def test_commas_part_keys_wherever_they_are_given(flags: tuple[str, ...]) -> None:
    """llama.cpp's server has several in one flag; that was one key here, which no client had."""
    settings = load({"api_keys": flags}, HOME | {"SEGUE_API_KEY": "a1, b2,c3"})
    assert settings.api_keys == ("a1", "b2", "c3")
