"""Methods of explanation. Every module in this folder and below it is read, so that its rows are in the table."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from .choice import MethodChoice, choose_method, find_method
from .table import DEFAULT, METHODS, Cost, Method, method

__all__ = ["DEFAULT", "METHODS", "Cost", "Method", "MethodChoice", "choose_method", "find_method", "method"]

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
