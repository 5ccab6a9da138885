"""What tokens write straight into the logits of a language model, through one head of one layer each."""

from mixlens.attribute.logit.family import AltiLogit, Logit

__all__ = ["AltiLogit", "Logit"]
