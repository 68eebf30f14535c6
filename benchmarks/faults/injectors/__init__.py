"""Kinds of fault, one small module each, under the contract in `base`."""
