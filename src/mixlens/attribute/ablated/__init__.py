"""Parts of a prompt taken out, each alone or many at once, and what that leaves of the answer."""

from mixlens.attribute.ablated.family import Ablated

__all__ = ["Ablated"]
