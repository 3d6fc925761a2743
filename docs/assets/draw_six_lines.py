"""Draw the picture of README's first example, by running it.

python docs/assets/draw_six_lines.py
"""

import doctest
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
HERE = Path(__file__).parent
README = HERE.parents[1] / "README.md"

if __name__ == "__main__":  # workers import this module
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(README.read_text(encoding="utf-8")):
        exec(example.source, names)
    names["figure"].savefig(HERE / "six-lines.svg", metadata={"Date": None}, bbox_inches="tight")
