"""Which recorded operators nothing supports: said when the recording is made, not first when it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Gap:
    """One operator, or one use of it, that the catalogue does not have; `op` is empty when the recording does not load."""

    op: str
    reason: str
    count: int
    places: list[str]  # "encoder.quantizer@0, my_model/quant.py:88: d = torch.cdist(x, self.codebook)"
    suggestion: str

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        where = f"; in {self.places[0]}" if self.places else ""
        more = f" and {len(self.places) - 1} more places" if len(self.places) > 1 else ""
        advice = f"; {self.suggestion}" if self.suggestion else ""
        return f"{self.reason}{times}{where}{more}{advice}"


def gaps_of(manifest: Path) -> list[Gap]:
    from ... import _core

    try:
        return [Gap(**found) for found in _core.gaps(str(manifest))]
    except _core.Error as error:
        return [Gap("", f"the recording does not load: {error}", 1, [], "")]
