"""Randomized Hadamard rotation: signs, block Walsh-Hadamard transforms, permutations."""
