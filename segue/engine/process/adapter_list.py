"""The LoRA adapters of one served model: which a request is computed with, and at which scales.

A request names one as its model, lists some with scales, or says nothing: then those apply that the server applies.
"""

import math
from collections.abc import Iterable

import msgspec

from segue.errors import InvalidField
from segue.types import Adapter, ServedAdapter


class AdapterList:
    def __init__(self, served: Iterable[ServedAdapter] = (), has_choice: bool = False) -> None:
        """`has_choice`: they have names of their own, so that a request's model must be one of the names."""
        self._served = list(served)
        self.has_choice = has_choice

    @property
    def served(self) -> list[ServedAdapter]:
        return list(self._served)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self._served]

    def settle(
        self, model: str, wanted: tuple[Adapter, ...] | None, param: str = "lora"
    ) -> tuple[Adapter, ...]:
        """Names and scales, in the list's order; those of scale 0 are left out. `model`: the name asked for."""
        named = [place for place, each in enumerate(self._served) if each.name == model]
        if named and wanted is not None:
            raise InvalidField(
                f"{param} cannot be given together with the model {model!r}, which is an adapter",
                param,
            )
        if named:
            scales = {named[0]: self._served[named[0]].scale}
        elif wanted is None:
            scales = {place: each.applied for place, each in enumerate(self._served)}
        else:
            scales = self._scales(wanted, param)
        return tuple(
            Adapter(each.name, scale)
            for place, each in enumerate(self._served)
            if (scale := scales.get(place, 0.0))
        )

    def apply(self, wanted: tuple[Adapter, ...]) -> None:
        """Set what requests get that say nothing of adapters; an adapter that is not listed is left out."""
        scales = self._scales(wanted, "id")
        self._served = [
            msgspec.structs.replace(each, applied=scales.get(place, 0.0))
            for place, each in enumerate(self._served)
        ]

    def _scales(self, wanted: tuple[Adapter, ...], param: str) -> dict[int, float]:
        """Scales by place. Of an adapter that is listed twice, the last."""
        scales: dict[int, float] = {}
        for adapter in wanted:
            place = self._place(adapter.name, param)
            scale = self._served[place].scale if adapter.scale is None else adapter.scale
            if not math.isfinite(scale):
                raise InvalidField(f"{param}: a scale must be a finite number", param)
            scales[place] = scale
        return scales

    def _place(self, name: str | int, param: str) -> int:
        if isinstance(name, int) and 0 <= name < len(self._served):
            return name
        if name in self.names:
            return self.names.index(str(name))
        if not self._served:
            raise InvalidField(f"{param} must be left out: this model has no adapters", param)
        if isinstance(name, int):
            raise InvalidField(
                f"{param}: there is no adapter {name}; ids are 0 to {len(self._served) - 1}", param
            )
        raise InvalidField(
            f"{param}: there is no adapter {name!r}; served: {', '.join(self.names)}", param
        )
