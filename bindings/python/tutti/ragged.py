"""Ragged tensors of nested lists."""

from tutti._composites import ragged_constant as constant

__all__ = ["constant"]
