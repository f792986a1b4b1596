"""The table of architectures: how the models of each architecture name in GGUF files compute.

To add an architecture, add a row to one of the files here; family.py has its columns. What varies between files of one
architecture is read from the file: hparams.py, layers.py.
"""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.alibi import ALIBI
from segue.runners.cpu.architectures.families.dense import DENSE
from segue.runners.cpu.architectures.families.hybrids import HYBRIDS
from segue.runners.cpu.architectures.families.latents import LATENTS
from segue.runners.cpu.architectures.families.looped import LOOPED
from segue.runners.cpu.architectures.families.mixtures import MIXTURES
from segue.runners.cpu.architectures.families.sigmoid_mixtures import SIGMOID_MIXTURES
from segue.runners.cpu.architectures.families.streams import STREAMS
from segue.runners.cpu.architectures.families.uncommon import UNCOMMON
from segue.runners.cpu.architectures.families.windowed import WINDOWED
from segue.runners.cpu.architectures.family import Family

FAMILIES: Mapping[str, Family] = {
    **DENSE,
    **ALIBI,
    **MIXTURES,
    **SIGMOID_MIXTURES,
    **WINDOWED,
    **STREAMS,
    **LOOPED,
    **LATENTS,
    **HYBRIDS,
    **UNCOMMON,
}
