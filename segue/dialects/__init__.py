"""Every dialect the server speaks."""

from segue.dialects.base import Dialect
from segue.dialects.llamacpp import LLAMACPP
from segue.dialects.llamafile import LLAMAFILE
from segue.dialects.llamastack import LLAMASTACK
from segue.dialects.mistralrs import MISTRALRS
from segue.dialects.ollama import OLLAMA
from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM

DIALECTS: tuple[Dialect, ...] = (OPENAI, LLAMACPP, LLAMAFILE, MISTRALRS, VLLM, LLAMASTACK, OLLAMA)
