"""How models write the parameters of a function between tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from segue.engine.constraints.schemas.values import TYPES


@dataclass(frozen=True)
class Style:
    before: str  # the name
    mark: str  # right after the name, which must not hold it
    tells: Mapping[str, str] = field(default_factory=dict)  # after the mark, by the value's type
    opens: str = ""  # the value, after a space maybe
    closes: str = "</parameter>"
    escapes: tuple[tuple[str, str], ...] = ()  # in names
    item: str = ""  # how an item begins, where arrays and objects are no JSON but written alike
    spaces_items: bool = False
    named_end: str = ""  # if what closes a property is this, its name and the mark

    def end(self, name: str) -> str:
        """What closes a property, or an item."""
        return f"{self.named_end}{name}{self.mark}" if self.named_end else self.closes

    def escaped(self, name: str) -> str:
        for plain, instead in self.escapes:
            name = name.replace(plain, instead)
        return name

    @property
    def tells_strings(self) -> bool:
        return len(set(self.tells.values())) > 1


def _each(string: str, others: str) -> dict[str, str]:
    return {kind: string if kind == "string" else others for kind in TYPES}


def _dsml(space: str) -> Style:
    return Style(
        f'<｜DSML｜{space}parameter name="',
        '"',
        _each(' string="true">', ' string="false">'),
        closes=f"</｜DSML｜{space}parameter>",
    )


_COHERE = {"string": "raw", "object": "dict", "array": "list"}
STYLES = {
    "qwen_xml": Style("<parameter=", ">"),
    "minimax_xml": Style('<parameter name="', '"', _each(">", ">")),
    "deepseek_xml": _dsml(""),
    "deepseek_v4_1_xml": _dsml(" "),
    "glm_xml": Style("<arg_key>", "</arg_key>", opens="<arg_value>", closes="</arg_value>"),
    "kimi_k3_xml": Style(
        '<|open|>argument key="',
        '"',
        {kind: f' type="{kind}"<|sep|>' for kind in TYPES},
        closes="<|close|>argument<|sep|>",
        escapes=(("&", "&amp;"), ('"', "&quot;")),
    ),
    "cohere_xml": Style(
        '<cofl:value name="',
        '"',
        {kind: f' type="{_COHERE.get(kind, "json")}">' for kind in TYPES},
        closes="</cofl:value>",
        escapes=(("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")),
        item="<cofl:value",
    ),
    "minimax_m3_xml": Style(
        "]<]minimax[>[<",
        ">",
        closes="]<]minimax[>[",
        item="]<]minimax[>[<item>",
        spaces_items=True,
        named_end="]<]minimax[>[</",
    ),
}
