"""Fusion of rankings, and the storage format of vectors. Pure."""

import math
import struct
from collections.abc import Sequence
from typing import Final

FUSED_FROM_EACH: Final = 50
"""Number of entries of each ranking that count."""

_K: Final = 60
"""Cormack, Clarke, Büttcher: Reciprocal Rank Fusion, SIGIR 2009. It keeps one first place from outweighing two second ones."""


def fuse(*rankings: Sequence[str], limit: int) -> tuple[str, ...]:
    """Merge several rankings into one: entries that rank high in most of them come first, ties by id."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, one in enumerate(ranking, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (_K + place)
    return tuple(sorted(scores, key=lambda one: (-scores[one], one))[:limit])


def pack_vector(numbers: Sequence[float], dimension: int) -> bytes:
    """Encode a vector for storage: of length one, as float32, the least significant byte first."""
    if len(numbers) != dimension:
        message = f"a vector has {len(numbers)} numbers, expected {dimension}"
        raise ValueError(message)
    try:
        length = math.hypot(*numbers)
        if not 0 < length < math.inf:
            message = f"a vector has the length {length}, and therefore no direction"
            raise ValueError(message)
        return struct.pack(f"<{dimension}f", *[number / length for number in numbers])
    except (TypeError, struct.error, OverflowError) as error:
        message = f"a vector must contain only numbers: {error}"
        raise ValueError(message) from error
