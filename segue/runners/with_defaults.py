"""A model with the sampling defaults that it brings along."""

from dataclasses import dataclass

import msgspec

from segue.engine.seam import Loaded, Loader
from segue.types import ModelDefaults


@dataclass(frozen=True)
class LoaderWithDefaults:
    """Implements seam.Loader: the model of another loader, whose info has these defaults."""

    model: Loader
    defaults: ModelDefaults

    def __call__(self) -> Loaded:
        loaded = self.model()
        return loaded._replace(info=msgspec.structs.replace(loaded.info, defaults=self.defaults))
