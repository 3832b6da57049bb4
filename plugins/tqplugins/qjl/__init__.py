"""Lloyd-Max levels and a one-bit sketch of what they leave over: TurboQuant_prod."""
