"""Every text of a data set becomes an attribution on the disk, in a run that survives being killed."""

from mixlens.dataset.explain import explain_data

__all__ = ["explain_data"]
