"""Run the notebooks of this folder and keep what they print and draw: `python docs/tutorials/run.py [NAME ...]`.

Needs the extra `docs` (nbclient comes with it). What changes from run to run, and what names a machine, is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def run(path: Path) -> None:
    """One notebook, in place."""
    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(HERE)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    names = sys.argv[1:] or [path.stem for path in sorted(HERE.glob("*.ipynb"))]
    for name in names:
        run(HERE / f"{name}.ipynb")
