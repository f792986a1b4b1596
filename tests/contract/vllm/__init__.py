"""vLLM: contract sections A (column V), B.2 and C; the chunks of seed document 000."""

from tests.contract.vllm.completions import COMPLETIONS
from tests.contract.vllm.generated import GENERATED
from tests.contract.vllm.pages import PAGES
from tests.contract.vllm.refusals import REFUSALS
from tests.contract.vllm.scores import SCORES

CASES = COMPLETIONS + SCORES + GENERATED + REFUSALS + PAGES
