"""Every dialect the server speaks."""

from segue.dialects.base import Dialect
from segue.dialects.openai import OPENAI

DIALECTS: tuple[Dialect, ...] = (OPENAI,)
