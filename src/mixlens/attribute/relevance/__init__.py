"""Relevance that is handed down from the answer by rules, layer by layer."""

from mixlens.attribute.relevance.family import Relevance

__all__ = ["Relevance"]
