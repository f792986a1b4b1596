"""GGUF files: what their headers say, checked before any library maps a file, of one file or of several."""

from segue.models.gguf.files import check_magic as check_magic
from segue.models.gguf.files import header as header
from segue.models.gguf.headers import GgufHeader as GgufHeader
from segue.models.gguf.headers import Tensor as Tensor
from segue.models.gguf.headers import Value as Value
