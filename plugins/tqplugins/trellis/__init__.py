"""Trellis-coded quantization: twice the levels of the width, by the bits of the neighbours."""
