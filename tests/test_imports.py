"""Who may import whom (docs/architecture.md): the directions that keep engines, methods and data apart."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "coterie"

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "pooch", "requests", "PIL", "h5py")
BASE = {"arguments", "bounded", "errors", "files", "garbage", "registry", "streams"}
CORE = {"messages", "similarity", "clustering", "models", "data", "native", "training", "client", "federation"} | {
    "algorithms",
    "engine",
    "results",
    "privacy",
    "secure",
}
ALLOWED: dict[str, set[str]] = {
    "messages": set(),
    "similarity": {"native"},
    "clustering": set(),
    "native": set(),
    "coreset": set(),
    "privacy": set(),
    "secure": set(),
    "models": {"messages"},
    "data": {"similarity", "clustering"},
    "training": {"messages", "models", "native", "privacy"},
    "client": {"messages", "models", "privacy", "secure", "similarity", "training"},
    "federation": {"messages", "clustering", "models", "privacy", "secure", "training"},
    "algorithms": {"messages", "federation", "similarity", "clustering", "models", "privacy", "training"},
    "engine": {"messages", "models", "federation", "client", "data", "privacy", "training"},
    "results": {"messages", "clustering"},
    "tracking": {"results"},
    "run": CORE | {"tracking"},
    "compare": CORE | {"run"},
    "inspect": CORE | {"run"},
    "audit": CORE | {"run"},
    "deploy": CORE | {"run", "testing"},
    "studies": CORE | {"run", "inspect"},
    "reproduce": CORE | {"run", "compare", "inspect", "studies", "coreset"},
    "report": {"results", "clustering"},
}
"""What each package may import, beside itself and BASE."""
PRESENTING = ("report", "save", "plot", "to_frame", "_repr_html_")
"""Methods of result objects that draw: nothing else outside of `report` and `cli` imports `report`."""


def imports(file: Path) -> set[str]:
    """The packages of coterie that a file imports, anywhere in it; `report` within methods that draw does not count."""
    packages: set[str] = set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    drawing = {
        id(node)
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name in PRESENTING
        for node in ast.walk(method)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: relative import"
            names = [node.module] if node.module != "coterie" else [f"coterie.{alias.name}" for alias in node.names]
        packages |= {
            name.split(".")[1]
            for name in names
            if name.startswith("coterie.") and not (id(node) in drawing and name.startswith("coterie.report"))
        }
    return packages


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_directions(package: str) -> None:
    files = list((SOURCE / package).rglob("*.py"))
    assert files
    for file in files:
        forbidden = imports(file) - ALLOWED[package] - BASE - {package}
        assert not forbidden, f"{file.relative_to(SOURCE)} imports {sorted(forbidden)}"


def test_every_package_has_its_directions() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    assert packages - {"cli"} == set(ALLOWED)


def test_only_one_package_imports_flower() -> None:
    for file in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        found = {name for name in names if name.split(".")[0] in ("flwr", "ray")}
        assert not found or file.is_relative_to(SOURCE / "engine" / "flower"), f"{file} imports {found}"


def test_only_the_torch_trainer_and_models_need_torch_at_import() -> None:
    """So that the command line answers at once."""
    for file in SOURCE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
        heavy = {name for name in names if name.split(".")[0] in HEAVY}
        assert not heavy or file.name.startswith(("torch_", "optimisers")), f"{file} imports {heavy} at once"
