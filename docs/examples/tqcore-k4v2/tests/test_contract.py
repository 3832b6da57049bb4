"""tqcore's contract, and what the scheme is made of."""

from tqcore.codec import codec_for
from tqcore.registry import registry
from tqcore.testing.contract import contract


@contract("tqcore-k4v2")
def test_contract(check):
    """Run one check."""
    check()


def test_it_has_the_bytes_of_3_bits_and_parts_of_two_packages():
    """A trellis from tqcore, a lattice from tqcore-e8p, nothing of our own."""
    ours, plain = (registry().scheme(name).resolve(3) for name in ("k4v2", "turboquant"))
    assert (ours.key.codebook, ours.value.codebook) == ("trellis", "e8p")
    bytes_of = [sum(codec_for(s, 128).nbytes for s in (x.key, x.value)) for x in (ours, plain)]
    assert bytes_of[0] == bytes_of[1]
