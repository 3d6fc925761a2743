"""Help in sections: of the program its commands by use, of a command its flags by section of the configuration."""

import textwrap
from collections.abc import Mapping

import click
import typer.core

WIDEST, GAP, NARROWEST = 24, 2, 20
"""Letters of the left column, where a longer name stands on a line of its own; between columns; of the right column."""

Rows = list[tuple[str, str]]


class SectionedCommand(typer.core.TyperCommand):
    """A command that shows its flags under the headings of their panels, first those without one."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags."""
        sections: dict[str, Rows] = {"Options": []}
        for param in self.get_params(ctx):
            heading = param.rich_help_panel if isinstance(param, typer.core.TyperOption) else None
            if record := param.get_help_record(ctx):
                sections.setdefault(heading or "Options", []).append(record)
        write_sections(formatter, sections)


def write_sections(formatter: click.HelpFormatter, sections: Mapping[str, Rows]) -> None:
    """Write rows of two columns under headings, with the same columns in all sections."""
    names = [name for rows in sections.values() for name, _ in rows]
    left = min(WIDEST, max(map(len, names), default=0)) + GAP
    for heading, rows in sections.items():
        if rows:
            with formatter.section(heading):
                for name, text in rows:
                    _write_row(formatter, name, text, left)


def _write_row(formatter: click.HelpFormatter, name: str, text: str, left: int) -> None:
    """Write a name, and beside it a text; a name that would be broken at a hyphen could not be copied."""
    indent = " " * formatter.current_indent
    width = max(formatter.width - len(indent) - left, NARROWEST)
    lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    first = [f"{name:{left}}{lines.pop(0)}"] if lines and len(name) + GAP <= left else [name]
    formatter.write("".join(f"{indent}{line}\n" for line in (*first, *(" " * left + line for line in lines))))
