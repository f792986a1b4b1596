"""A template as a model's own."""

from msgspec.structs import replace

from segue.dialects.templates.chat_template import render
from tests.support.fakes import INFO

USER = [{"role": "user", "content": "Hi <b>"}]


def rendered(template: str, content: str = "Hi <b>") -> str:
    info = replace(INFO, chat_template=template, bos_token="<s>", eos_token="</s>")
    return render(info, [{"role": "user", "content": content}], lambda: 86_400.0)
