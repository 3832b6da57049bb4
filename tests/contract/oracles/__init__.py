"""Five codecs in numpy, paper-thin: what named planes must be able to hold.

Each declares ``planes`` and has ``encode(x) -> arrays`` and ``decode(arrays) -> x``, for
``x [..., 64]``. None is fast, and none is registered.
"""

from tests.contract.oracles.affine import Affine
from tests.contract.oracles.pair import Pair
from tests.contract.oracles.prod import Prod
from tests.contract.oracles.scalar import Scalar
from tests.contract.oracles.trellis import Trellis

CODECS = (Scalar(3), Affine(4), Prod(3), Pair(5), Trellis(2))

__all__ = ["CODECS", "Affine", "Pair", "Prod", "Scalar", "Trellis"]
