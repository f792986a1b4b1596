"""Files for operators, checked for form: none of these systems runs here. Docker's health check does."""

import configparser
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from segue import config
from segue.types import Stats
from tests.server.conftest import Live
from tests.support.fakes import speak
from tests.support.metrics import one_process
from tests.support.waiting import PATIENCE_S

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
FLAGS = {row.flag for row in config.TABLE} | {"--config"}
VARIABLES = {row.variable for row in config.TABLE}

PROBE = {
    "type": "object",
    "required": ["httpGet"],
    "properties": {
        "httpGet": {
            "type": "object",
            "required": ["path", "port"],
            "properties": {"path": {"enum": ["/livez", "/readyz"]}, "port": {"const": "http"}},
        }
    },
}
CONTAINER = {
    "type": "object",
    "required": [
        "name",
        "image",
        "args",
        "ports",
        "readinessProbe",
        "livenessProbe",
        "startupProbe",
    ],
    "properties": {
        "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "readinessProbe": PROBE,
        "livenessProbe": PROBE,
        "startupProbe": PROBE,
        "securityContext": {
            "properties": {"allowPrivilegeEscalation": {"const": False}},
            "required": ["allowPrivilegeEscalation"],
        },
    },
}
COMPOSE = {
    "type": "object",
    "required": ["services"],
    "additionalProperties": False,
    "properties": {
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["build", "command", "ports", "volumes"],
                "properties": {
                    "command": {"type": "array", "items": {"type": "string"}},
                    "ports": {"type": "array", "items": {"pattern": r"^\d+:\d+$"}},
                },
            },
        },
        "volumes": {"type": "object"},
        "secrets": {"type": "object"},
    },
}


def flags_of(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--")}


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def test_kubernetes() -> None:
    objects = {each["kind"]: each for each in documents("kubernetes.yaml")}
    assert objects.keys() == {"StatefulSet", "Service"}
    replicas = objects["StatefulSet"]["spec"]
    assert replicas["serviceName"] == objects["Service"]["metadata"]["name"]
    assert replicas["selector"]["matchLabels"] == replicas["template"]["metadata"]["labels"]
    pod = replicas["template"]["spec"]
    [container] = pod["containers"]
    jsonschema.validate(container, CONTAINER)
    assert flags_of(container["args"]) <= FLAGS
    drain = float(container["args"][container["args"].index("--drain-timeout") + 1])
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > drain + pause
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    own = {claim["metadata"]["name"] for claim in replicas["volumeClaimTemplates"]}
    assert own == {"cache"}, "replicas on two nodes cannot share a volume"
    assert mounted == own | {volume["name"] for volume in pod["volumes"]}
    about = replicas["template"]["metadata"]
    assert objects["Service"]["spec"]["selector"] == about["labels"]
    assert "annotations" not in about, "scraped by annotations, /metrics would have no key"


def test_compose() -> None:
    [content] = documents("compose.yaml")
    jsonschema.validate(content, COMPOSE)
    service = content["services"]["segue"]
    assert flags_of(service["command"]) <= FLAGS
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    [secret] = content["secrets"].values()
    told = (DEPLOY / "compose.yaml").read_text("utf-8").splitlines()[0]
    assert f"deploy/{Path(secret['file'])}" in told, "files are looked for beside the compose file"
    assert float(service["stop_grace_period"].rstrip("s")) > config.Settings().drain_timeout_s


def test_the_dockerfile_is_of_good_form() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    names = [name for name, _ in steps]
    known = "FROM WORKDIR COPY RUN USER ENV VOLUME EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD"
    assert set(names) <= set(known.split())
    last = dict(steps[len(names) - 1 - names[::-1].index("FROM") :])
    assert last["USER"].isdigit()
    assert int(last["USER"]) > 0
    assert last["FROM"].split(":")[1] != "latest"
    assert last["VOLUME"] == "/cache"
    assert "/livez" in last["HEALTHCHECK"]
    assert isinstance(json.loads(last["ENTRYPOINT"]), list)
    assert isinstance(json.loads(last["HEALTHCHECK"].split("CMD", 1)[1]), list)
    assert json.loads(last["CMD"]) == ["serve"]
    assert set(re.findall(r"SEGUE_\w+", last["ENV"])) <= VARIABLES
    for step in (words for name, words in steps if name == "COPY" and "--from" not in words):
        for source in step.split()[:-1]:
            assert (DEPLOY.parent / source).exists()


def test_dockers_health_check_asks_the_port_that_is_set_and_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    [check] = re.findall(r"^HEALTHCHECK .* CMD (.+)$", text, re.M)
    python, option, code = json.loads(check)
    assert (python, option) == ("python", "-c")
    assert "timeout=4" in code
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    live = Live(speak("a"))
    monkeypatch.setenv("SEGUE_PORT", f"{live.port}")
    try:
        exec(code.replace("timeout=4", f"timeout={PATIENCE_S}"), {})
    finally:
        live.stop()


def test_systemd() -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "segue.service")
    service = unit["Service"]
    assert flags_of(service["ExecStart"].split()) <= FLAGS
    variables = dict(word.split("=") for word in service["Environment"].split())
    assert variables.keys() - {"HF_HOME"} <= VARIABLES
    folder = f"/var/cache/{service['CacheDirectory']}"
    assert all(value.startswith(folder) for value in variables.values()), "no home to write to"
    assert "HF_HOME" in variables
    assert float(service["TimeoutStopSec"]) > config.Settings().drain_timeout_s
    assert service["NoNewPrivileges"] == "yes"


@pytest.fixture(scope="module")
def told() -> str:
    metrics = one_process()
    metrics.observe(200)
    text = metrics.exposition({"m": Stats()})
    return text if isinstance(text, str) else text.decode()


def test_every_figure_of_the_dashboard_is_told_by_the_server(told: str) -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    names = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"segue_\w+", target["expr"])
    }
    assert len(names) > 10
    assert {name for name in names if f"{name}{{" not in told and f"{name} " not in told} == set()
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(places) == len(set(places))
