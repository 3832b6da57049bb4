"""The parts and schemes that ship with tqcore, registered like any third party's."""
