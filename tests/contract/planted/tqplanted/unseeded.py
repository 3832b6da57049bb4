"""Draws its signs anew at every build, whatever the seed."""

import random

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Signs


class Unseeded(Signs):
    def draw(self, dim, seed):
        return [random.choice((-1.0, 1.0)) for _ in range(dim)]


@hookimpl
def tqcore_rotations():
    return [Component("rotation", "planted-unseeded", "tqplanted.unseeded:Unseeded")]
