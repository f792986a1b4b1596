"""Names of tensors in files of some families, as others have them."""

from dataclasses import replace

from segue.models.gguf import Tensor
from segue.runners.cpu.anatomy.measures import Anatomy


def usually_named(tensor: Tensor, anatomy: Anatomy) -> Tensor:
    name = _usual(tensor.name, anatomy)
    return tensor if name == tensor.name else replace(tensor, name=name)


def _usual(name: str, anatomy: Anatomy) -> str:
    theirs, usual = anatomy.family.renamed
    if theirs and name.endswith(theirs):
        return name.removesuffix(theirs) + usual
    second, (first, fed) = anatomy.family.second_norm, anatomy.family.norms
    if second and not anatomy.shares_norm:
        own = {f".{second}.": f".{first}.", f".{first}.": f".{fed}."}
        return next((name.replace(old, new) for old, new in own.items() if old in name), name)
    return name
