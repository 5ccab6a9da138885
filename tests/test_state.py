"""Nothing that belongs to the whole process is moved: random states, environment, settings of torch and matplotlib."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixlens.view.kit import terminal

HERE = Path(__file__).parent

# In a process of its own: the tests' checks of shapes draw random numbers themselves.
CODE = """
import locale, os, random, sys, warnings
import matplotlib, numpy as np, torch, transformers
import mixlens
from mixlens.files import write_text
from models import families
from models.words import tokenizer

def state():
    return {
        "random": random.getstate(), "numpy": str(np.random.get_state()), "torch": torch.get_rng_state().tolist(),
        "environment": dict(os.environ), "rcParams": dict(matplotlib.rcParams), "warnings": list(warnings.filters),
        "locale": locale.setlocale(locale.LC_ALL), "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(), "dtype": torch.get_default_dtype(), "folder": os.getcwd(),
        "deterministic": torch.are_deterministic_algorithms_enabled(), "path": list(sys.path),
        "hooks": (sys.excepthook, sys.displayhook), "print": str(np.get_printoptions()), "errors": str(np.geterr()),
        "bars": transformers.utils.logging.is_progress_bar_enabled(),
        "said": transformers.utils.logging.get_verbosity(), "recursion": sys.getrecursionlimit(),
    }

def unmoved(name, call):
    before = state()
    out = call()
    after = state()
    for key in before:
        if before[key] != after[key]:
            print(name, "moves", key)
    return out

folder, text = sys.argv[1], "w11 w12 w13"
model = families.make("bert", "sequence")
model.save_pretrained(folder)
tokenizer().save_pretrained(folder)
lens = unmoved("load", lambda: mixlens.load(folder))
results = {
    "attribute": unmoved("attribute", lambda: lens.attribute(text)),
    "mixing": unmoved("mixing", lambda: lens.mixing(text)),
    "compare": unmoved("compare", lambda: lens.compare(text, ["alti", "random"], maps=True)),
    "evaluate": unmoved("evaluate", lambda: mixlens.evaluate(lens, [text] * 3, ["alti", "random"], ["aopc"])),
    "several": unmoved("several", lambda: lens.attribute([text, text], "integrated_gradients", tolerance=1e9)),
}
unmoved("skip", lambda: lens.attribute([text, text], errors="skip", progress=True))
for method in ("hta", "deeplift", "trans_att", "blank_out", "attention_flow", "random"):
    unmoved(method, lambda: lens.attribute(text, method))
for name, found in results.items():
    for view in ("__str__", "to_html", "_repr_html_", "to_latex", "to_frame", "plot"):
        if hasattr(found, view):
            drawn = unmoved(f"{name}.{view}", getattr(found, view))
            if view == "plot":
                unmoved(f"{name} in a notebook", drawn._repr_png_)
                unmoved(f"{name} as SVG", lambda: found.plot(folder + "/a.svg"))
print("done")
"""


@pytest.mark.slow
def test_nothing_global_is_moved(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr[-2000:]


def test_text_moves_no_random_state() -> None:
    import random

    from rich.style import Style
    from rich.text import Text

    random.seed(3)
    text = Text("a", style=Style(bold=True, link="b"))  # (older versions draw a number here)
    before = random.getstate()
    assert terminal.as_text(text) == "a"
    assert random.getstate() == before
