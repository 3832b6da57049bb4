"""Ends the process at one dimension, as an index out of range may."""

import os

from tqcore.hookspecs import hookimpl
from tqcore.spec import Component
from tqplanted.sound import Signs


class Crashes(Signs):
    def forward(self, x):
        if self.dim == 100:
            os.abort()
        return super().forward(x)


@hookimpl
def tqcore_rotations():
    return [Component("rotation", "planted-crashes", "tqplanted.crashes:Crashes")]
