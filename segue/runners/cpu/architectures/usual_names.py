"""Names of tensors in files of some families, as others have them."""

from dataclasses import replace

from segue.models.gguf import Tensor
from segue.runners.cpu.architectures.hparams import Hparams


def usually_named(tensor: Tensor, hparams: Hparams) -> Tensor:
    name = _usual(tensor.name, hparams)
    return tensor if name == tensor.name else replace(tensor, name=name)


def _usual(name: str, hparams: Hparams) -> str:
    theirs, usual = hparams.family.renamed
    if theirs and name.endswith(theirs):
        return name.removesuffix(theirs) + usual
    second, (first, fed) = hparams.family.second_norm, hparams.family.norms
    if second and not hparams.shares_norm:
        own = {f".{second}.": f".{first}.", f".{first}.": f".{fed}."}
        return next((name.replace(old, new) for old, new in own.items() if old in name), name)
    return name
