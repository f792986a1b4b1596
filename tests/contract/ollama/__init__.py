"""Ollama: contract sections A (column O), B.3 and C; the lines of seed document 000."""

from tests.contract.ollama.completions import COMPLETIONS
from tests.contract.ollama.pages import PAGES

CASES = COMPLETIONS + PAGES
