"""Files whose positions turn a part of a head, over which llama.cpp ends the process in most architectures."""

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.layers import head_size

_KEY = "rope.dimension_count"
# Where it takes for granted that they turn all (build 11549). In others it turns some of them, or refuses the file.
_ALL = """
    apertus arcee arctic baichuan chameleon codeshell cogvlm cohere2moe dbrx deepseek dots1 ernie4_5
    ernie4_5-moe exaone-moe granite granite_swa granitemoe grok hunyuan-dense hunyuan-moe hunyuan_vl
    hy_v3 internlm2 jais2 llama4 maincoder mellum minicpm mistral3 olmo olmo2 olmoe orion paddleocr
    pangu-embedded plamo qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe seed_oss smallthinker
    smollm3 starcoder2 talkie xverse
"""


def partial_rotary_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None."""
    told, size = header.count(_KEY), head_size(header)
    if told in (0, size) or header.architecture not in _ALL.split():
        return None
    name = f"{header.architecture}.{_KEY}"
    return f"{name} is {told}, of heads that are {size} wide: over that it would end the process"
