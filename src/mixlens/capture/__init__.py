"""Stage 2: text -> tokens -> one pass -> named tensors per layer."""
