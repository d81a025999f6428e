"""What comes out: the map of an image for a class, the facts behind it, its pictures and its files."""

from .explanation import Explanation

__all__ = ["Explanation"]
