"""The former place of `engine/detokeniser.py`, until the last user here is gone."""

from fedaigc_edge.engine.detokeniser import Detokeniser, TokenBytes

__all__ = ["Detokeniser", "TokenBytes"]
