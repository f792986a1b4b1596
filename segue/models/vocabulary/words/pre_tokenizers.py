r"""`tokenizer.ggml.pre`, by every name that llama.cpp knows: how a text is split, and what else the name settles.

Each expression is the one by which llama.cpp splits, which is not always the one that the model was trained with:
`\p{Lu}` and `\p{Ll}` are there any letter, and letters outside ASCII are upper and lower case at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from segue.models.vocabulary.words.splitting import Rule


@dataclass(frozen=True)
class PreTokenizer:
    rules: tuple[Rule, ...]
    ignores_merges: bool = False  # a word that is a token is that token
    adds_bos: bool = False  # unless the file says otherwise
    always_adds_bos: bool = False
    has_usual_bos: bool = True  # token 11 is BOS unless the file says otherwise
    # Bytes are spelled with GPT-2's alphabet. Otherwise characters are themselves, spaces "▁", unknown bytes "<0x0A>".
    is_byte_level: bool = True
    keeps_newlines: bool = False  # a run of newlines that is a token is that token
    marks_words: bool = False  # each "▁" begins a word, and one is put in front of a line


_CONTRACTION = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"|[^\r\n\p{L}\p{N}]?[\p{L}]+"
_OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
_ANY_CASE = (
    r"[^\r\n\p{L}\p{N}]?[\p{Upper}{M}]*[\p{Lower}{M}]+{END}"
    r"|[^\r\n\p{L}\p{N}]?[\p{Upper}{M}]+[\p{Lower}{M}]*{END}"
)
_MARKED_WORD = rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+(?:{_CONTRACTION})?"
_THREES, _ONE = r"|[\p{N}]{1,3}", r"|[\p{N}]"
_OTHERS_AND_SLASHES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*"
_PUNCTUATED = (
    r"[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + _SPACE
)


def _cased(marks: str, ending: str) -> str:
    return _ANY_CASE.replace("{M}", marks).replace("{END}", ending)


_NUMBER, _DIGIT = Rule(r"[\p{N}]+"), Rule(r"[\p{N}]")
_THREE_DIGITS = Rule("[0-9][0-9][0-9]")
_NEWLINE = Rule(r"[\r\n]")
_KANA = Rule(r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "text")
_CJK = Rule(r"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "text")
_GPT2 = Rule(r"'(?:[stmd]|re|ve|ll)| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
_LLAMA3 = Rule(_CONTRACTION + _WORD + _THREES + _OTHERS + _SPACE)
_QWEN2 = Rule(_CONTRACTION + _WORD + _ONE + _OTHERS + _SPACE)
_BLOOM = Rule(r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+", "text")
_LINES = Rule(r"[^\n]+|\n+")
_DEEPSEEK_LETTERS = (
    r"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    r"\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    r"\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    r"\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    r"\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    r"\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    r"\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    r"\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    r"\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    r"\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_AFMOE_LETTERS = (
    r"\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    r"\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff"
)
_YOUTU = (
    r"[\uac00-\ud7a3\u3131-\u318e]+"
    r"|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
    r"|[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
)
_JAIS2_SPACE = r"|\s*[\r\n]+" + "".join(
    rf"|\s{{{length}}}(?!\S)" for length in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")
)  # fmt: skip
_KIMI = (
    r"[\p{Han}\p{HanUnlettered}]+"
    rf"|[^\r\n\p{{L}}\p{{N}}\p{{Han}}]?[\p{{L}}]+(?:{_CONTRACTION})?"
    r"|[\p{N}]{1,3}| ?[^\s\p{L}\p{N}\p{Han}]+[\r\n]*" + _SPACE
)
_TRAILING_SPACE = Rule(part_at="trailing space")


def _split(*rules: Rule | str) -> PreTokenizer:
    return PreTokenizer(tuple(Rule(rule) if isinstance(rule, str) else rule for rule in rules))


_default = _split(Rule(r"[\p{P}$+<=>\^\~\|]+"), _GPT2, _NUMBER, _THREE_DIGITS)
_gpt2 = _split(_GPT2)
_digits = _split(_DIGIT, _GPT2)
_llama3 = _split(_LLAMA3)
_qwen2 = _split(_QWEN2)
_bloom = _split(_BLOOM)
_glm4 = replace(_llama3, has_usual_bos=False)
_deepseek3 = _split(r"[\p{N}]{1,3}", _KANA, _PUNCTUATED)
_gpt4o = _split(_cased("", f"(?:{_CONTRACTION})?") + _THREES + _OTHERS_AND_SLASHES + _SPACE)
_tiny_aya = _split(
    Rule(r"[\p{N}]+", part_at="end"), _MARKED_WORD + _THREES + _OTHERS_AND_SLASHES + _SPACE
)
_bailing = _split(_CONTRACTION + _WORD + _ONE + _OTHERS + r"|\s*[\r\n]|\s+(?!\S)|\s+")
_lines = replace(_split(_LINES), is_byte_level=False)
_gemma4 = replace(_lines, keeps_newlines=True, always_adds_bos=True)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    **dict.fromkeys(("", "default"), _default),
    **dict.fromkeys(
        (
            *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
            *("jina-v5-nano",),
        ),
        replace(_llama3, ignores_merges=True, adds_bos=True),
    ),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _llama3),
    **dict.fromkeys(
        (
            *("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0"),
            *("mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "exaone4", "mpt"),
            *("olmo", "jais", "trillion", "granite-docling"),
        ),
        _gpt2,
    ),
    **dict.fromkeys(
        (
            *("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"),
            *("mellum2",),
        ),
        _digits,
    ),
    **dict.fromkeys(
        (
            *("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan"),
            *("solar-open", "grok-2"),
        ),
        _qwen2,
    ),
    **dict.fromkeys(("poro-chat", "bloom", "gpt3-finnish"), _bloom),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"), _deepseek3),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), _gpt4o),
    **dict.fromkeys(("tiny_aya", "cohere2moe"), _tiny_aya),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), _bailing),
    **dict.fromkeys(("gemma4", "granite-embed-multi-311m"), _gemma4),
    **dict.fromkeys(("glm4", "glm5"), replace(_glm4, ignores_merges=True)),
    "chatglm-bpe": _glm4,
    "sarvam-moe": _lines,
    "mmbert": replace(_lines, keeps_newlines=True, marks_words=True),
    "minicpm5": replace(
        _split(r"[\p{N}]{1,3}", _CONTRACTION + _WORD + r"|[\p{N}]+" + _OTHERS + _SPACE),
        ignores_merges=True,
    ),
    "jais-2": _split(_CONTRACTION + _WORD + _THREES + _OTHERS + _JAIS2_SPACE + r"|\s"),
    "deepseek-llm": _split(
        _NEWLINE,
        Rule(rf"\s?[{_DEEPSEEK_LETTERS}]+", "text"),
        Rule(r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", "text"),
        _TRAILING_SPACE,
        _CJK,
        _NUMBER,
    ),
    "deepseek-coder": _split(_NEWLINE, r"\s?[\p{L}]+", r"\s?[\p{P}]+", _CJK, _DIGIT),
    "spark2_5": _split(
        r"[\p{N}]{1,3}",
        _KANA,
        _PUNCTUATED.replace(r"[\r\n]*|\s*[\r\n]+", r"|[\r\n]"),
        _DIGIT,
    ),
    "youtu": replace(
        _split(
            Rule(_YOUTU, "text"), _MARKED_WORD + _ONE + _OTHERS_AND_SLASHES + _SPACE
        ),
        ignores_merges=True,
    ),
    "falcon": _split(r"[\p{P}$+<=>\^\~\|`]+", _GPT2, _THREE_DIGITS),
    "qwen35": _split(
        _CONTRACTION
        + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|[\p{N}]| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
        + _SPACE
    ),
    "viking": _split(_BLOOM, _DIGIT),
    "tekken": replace(
        _split(_cased("", "") + _ONE + _OTHERS_AND_SLASHES + _SPACE),
        ignores_merges=True,
        adds_bos=True,
    ),
    "chameleon": replace(
        _split(
            "<sentinel:[0-9]+>",
            "IMGIMG[A-I]{1,4}Z",
            r"[\t\n]|    |  ",
            _DIGIT,
            r"[\p{P}!-/:-@\[-`{-~]",
            _GPT2,
        ),
        adds_bos=True,
    ),
    "granite-embed-multi-97m": replace(
        _split(
            _cased(r"\p{M}", f"(?:{_CONTRACTION})?") + _THREES + _OTHERS_AND_SLASHES + _SPACE
        ),
        ignores_merges=True,
    ),
    "superbpe": _split(_NUMBER, Rule("[0-9]+", part_at="start")),
    "seed-coder": _split(_CONTRACTION + _WORD + _ONE + r"| ?[^\s\p{L}\p{N}]+" + _SPACE),
    "ufakzeka": _split((_WORD + _ONE + _OTHERS + _SPACE).removeprefix("|")),
    "exaone-moe": _split(
        _CONTRACTION
        + r"|[^\r\n\p{L}\p{N}]?(?:[\p{L}][\p{M}]*(?: [\p{L}][\p{M}]*)*)+"
        + _ONE
        + r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    "kimi-k2": _split(Rule(_KIMI, "han")),
    "afmoe": _split(
        Rule(r"[\p{N}]+", part_at="end"), Rule(f"[{_AFMOE_LETTERS}]+", "text"), _PUNCTUATED
    ),
    "laguna": _split(_LINES, _QWEN2),
    "k2-horizon": _split(
        r"'(?:[sStTmMdD\p{LongS}]|[rR][eE]|[vV][eE]|[lL][lL])"
        r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\p{Joiner}]+" + _THREES + _OTHERS + _SPACE
    ),
}  # fmt: skip
