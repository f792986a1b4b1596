"""The models that are up, with what there is to tell of them in figures."""

import contextlib
from typing import NamedTuple

from segue.dialects.base import Service
from segue.errors import Unavailable
from segue.types import ModelInfo, Served, Stats


class Loaded(NamedTuple):
    info: ModelInfo
    stats: Stats
    served: Served


async def loaded_models(service: Service) -> dict[str, Loaded]:
    """By name: one that is restarting is left out. Aliases and adapters are other names."""
    loaded: dict[str, Loaded] = {}
    for card in service.cards():
        if card.info is not None and not card.is_alias and not card.parent:
            with contextlib.suppress(Unavailable):
                stats = await service.stats(card.name)
                loaded[card.name] = Loaded(card.info, stats, service.served(card.name))
    return loaded
