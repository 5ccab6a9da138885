"""`python -m mixlens`."""

from mixlens.cli import main

if __name__ == "__main__":
    main()
