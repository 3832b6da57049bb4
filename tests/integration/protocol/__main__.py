"""Write ``docs/protocol.md`` to standard output."""

from tests.integration.protocol.page import page

print(page(), end="")
