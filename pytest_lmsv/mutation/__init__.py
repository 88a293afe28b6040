"""Mutation: the space of a model, its constraints, drawing from it, and applying what was drawn."""

from pytest_lmsv.mutation.draw import mutations

__all__ = ["mutations"]
