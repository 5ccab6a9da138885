"""Stage 9: pictures of a result: terminal, pages, figures, LaTeX, tables. Nothing here computes a score.

The modules know a result by its attributes and never import `mixlens.results`, which imports them on use.
"""
