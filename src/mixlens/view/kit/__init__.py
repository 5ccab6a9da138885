"""What pictures of all results are made with: colours, fonts, words, captions, figures, pages, LaTeX, terminal."""
