"""What a stranger's own test file looks like; run in the fresh environment."""

from tqcore.testing.contract import contract


@contract("tqcore-sample-nf")
def test_contract(check):
    check()
