"""Configurations as TOML."""

from coterie.results.toml import toml_value
from coterie.run.config import SECTIONS, ChoiceSection, Config, Key


def to_toml(config: Config, comments: bool = True) -> str:
    """Write a configuration as TOML; keys without a value stand as comments."""
    lines: list[str] = []
    for section, model in SECTIONS.items():
        table = getattr(config, section)
        lines += [f"[{section}]" + (f"  # {model.__doc__}" if comments else "")]
        for name, info in model.model_fields.items():
            value = getattr(table, name)
            note = f"  # {Key(section, name, info).help}" if comments else ""
            lines.append(f"# {name} ={note}" if value is None else f"{name} = {toml_value(value)}{note}")
        if isinstance(table, ChoiceSection):
            for name, value in table.options.items():
                lines.append(f"# {name} =" if value is None else f"{name} = {toml_value(value)}")
        lines.append("")
    return "\n".join(lines)
