"""A plugin as they were written against plugin API 1: every hook, every kind of part."""
