import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.templates.go_template import MAX_CHARS, names, render
from segue.errors import InvalidField

VALUES = {".System": "S", ".Prompt": "P", ".Suffix": ""}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .Prompt }}", "P"),
        ("{{.Prompt}}", "P"),
        (
            "[INST] {{ if .System }}<<SYS>>{{ .System }}<</SYS>>{{ end }}{{ .Prompt }} [/INST]",
            "[INST] <<SYS>>S<</SYS>>P [/INST]",
        ),
        ("{{ if .Suffix }}a{{ else }}b{{ end }}", "b"),
        ("{{ if .Suffix }}{{ if .System }}a{{ end }}{{ else }}b{{ end }}", "b"),
        ("x  {{- .Prompt -}}  y", "xPy"),
        ("x\n{{- /* a note */ -}}\ny", "xy"),
        ("{{ .Prompt }}<a>{{ .Response }}<end>{{ .Prompt }}", "P<a>"),
        ("{{ if .Suffix }}{{ .Response }}{{ end }}{{ .Prompt }}", "P"),
        ("", ""),
        ("} { }}", "} { }}"),
    ],
)
def test_rendered(template: str, text: str) -> None:
    assert render(template, VALUES) == text


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ range .Messages }}{{ end }}", "range .Messages"),
        ("{{ .Messages }}", ".Messages"),
        ("{{ if .Tools }}{{ end }}", ".Tools"),
        ("{{ if and .System .Prompt }}{{ end }}", "if and"),
        ("{{ if .Suffix }}{{ .Secret }}{{ end }}", ".Secret"),
        ('{{ "<s>" }}', "<s>"),
        ("{{ if .System }}", "without its"),
        ("{{ end }}", "end"),
        ("{{ else }}", "else"),
        ("{{ .Prompt", "without }}"),
        ("x" * (MAX_CHARS + 1), "at most"),
    ],
)
def test_refused(template: str, reason: str) -> None:
    with pytest.raises(InvalidField, match=reason) as error:
        render(template, VALUES)
    assert error.value.param == "template"


@given(st.text(alphabet="{}-. \nifelsendPrompt", max_size=40))
def test_anything_is_rendered_or_refused(template: str) -> None:
    try:
        text = render(template, VALUES)
    except InvalidField:
        return
    assert "{{" not in text


def test_a_long_prompt_in_place_of_each_name() -> None:
    """Three hundred kilobytes of a request became gigabytes."""
    with pytest.raises(InvalidField, match="more than 33554432 characters"):
        render("{{.Prompt}}" * 5000, {**VALUES, ".Prompt": "a" * 10_000})
    assert len(render("{{.Prompt}}" * 5000, {**VALUES, ".Prompt": "a" * 1000})) == 5_000_000


def test_names() -> None:
    source = "{{- /* .Suffix */ -}}{{ if .System }}{{ .System }}{{ end }}.Text {{ .Prompt -}}"
    assert names(source) == {".System", ".Prompt"}
    with pytest.raises(InvalidField):
        names("{{ .Prompt")
