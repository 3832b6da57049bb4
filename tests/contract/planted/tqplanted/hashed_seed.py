"""Derives its seed from ``hash`` of a string, which every process does otherwise."""

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Signs


class HashedSeed(Signs):
    def draw(self, dim, seed):
        return super().draw(dim, hash(f"planted {seed}") & 0xFFFF)


@hookimpl
def tqcore_rotations():
    return [Component("rotation", "planted-hashed-seed", "tqplanted.hashed_seed:HashedSeed")]
