"""The contract kit that plugin authors run over their components (extra ``testing``).

    from tqcore.testing.contract import contract

    @contract("my-package")
    def test_contract(check):
        check()

``tqcore check my-package`` runs the same checks from the command line, ``golden.check_golden``
keeps stored bytes, ``strategies`` makes inputs.

tqcore's own components run the very same kit. For GPU kernels there is ``tqcore.testing.msl``.
"""
