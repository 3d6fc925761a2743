"""A hook of MkDocs: notebooks become pages of the site, with the outputs that they hold."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

ENDING = re.compile(r"\.ipynb(?=[)#])(?!\)\{ download)")
"""Of a link to a notebook, but for the one that downloads it."""
STYLE = re.compile(r"<style.*?</style>", re.DOTALL)
"""What pandas adds to its tables, which the site's own style goes before."""


def on_config(config: Any) -> Any:
    """Let the navigation name pages where it names notebooks."""
    config.nav = _as_pages(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook; the notebook itself stays, to be downloaded."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        text = page(json.loads(Path(file.abs_src_path).read_text(encoding="utf-8")), Path(file.src_uri).name)
        files.append(File.generated(config, _as_pages(file.src_uri), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links lead to pages where they lead to notebooks."""
    return ENDING.sub(".md", markdown)


def _as_pages(nav: Any) -> Any:
    if isinstance(nav, dict):
        return {title: _as_pages(item) for title, item in nav.items()}
    if isinstance(nav, list):
        return [_as_pages(item) for item in nav]
    return nav.removesuffix(".ipynb") + ".md" if nav.endswith(".ipynb") else nav


def page(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as Markdown.

    >>> heading, code = {"cell_type": "markdown", "source": ["# Title"]}, {"cell_type": "code", "source": "1 + 1"}
    >>> print(page({"cells": [heading, {**code, "outputs": []}]}, "sum.ipynb"))
    # Title
    <BLANKLINE>
    [sum.ipynb](sum.ipynb){ download }
    <BLANKLINE>
    ```python
    1 + 1
    ```
    <BLANKLINE>
    """
    parts = []
    for cell in notebook["cells"]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *filter(None, map(output, cell["outputs"]))]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"[{name}]({name}){{ download }}", *([rest.strip()] if rest else []), *parts[1:]]) + "\n"


def output(made: dict[str, Any]) -> str:
    """Return an output of a cell: a picture, a table, or text."""
    data = made.get("data", {"text/plain": made.get("text", "")})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{_text(data["image/png"]).strip()}">'
    if "text/html" in data:
        plain = STYLE.sub("", _text(data["text/html"])).replace('<table border="1" class="dataframe">', "<table>")
        return f'<div style="margin:1em 0">{"".join(line.strip() for line in plain.splitlines())}</div>'
    text = _text(data["text/plain"]).rstrip()
    return f"<pre>{html.escape(text)}</pre>" if text else ""


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
