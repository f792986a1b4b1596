"""llama.cpp's server: its OpenAI path, its native one, and the pages its clients read."""

from tests.contract.llamacpp.completions import COMPLETIONS
from tests.contract.llamacpp.infill import INFILLS
from tests.contract.llamacpp.native import NATIVES
from tests.contract.llamacpp.pages import PAGES

CASES = COMPLETIONS + NATIVES + INFILLS + PAGES
