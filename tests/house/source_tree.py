"""The source tree as the house tests see it: files, modules and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "fedaigc": ROOT / "fedaigc",
    "fedaigc_edge": ROOT / "edge_client" / "fedaigc_edge",
    "fedaigc_server": ROOT / "server" / "fedaigc_server",
}
TEST_FOLDERS = {"fedaigc": "fedaigc", "fedaigc_edge": "edge", "fedaigc_server": "server"}


@dataclass(frozen=True)
class SourceFile:
    """One Python file of a package."""

    package: str
    path: Path

    @property
    def name(self) -> str:
        """Path within its package, for messages."""
        return f"{self.package}/{self.path.relative_to(PACKAGES[self.package])}"

    def imports(self) -> Iterator[str]:
        """Every module name that the file imports, at any depth of the code."""
        for node in ast.walk(ast.parse(self.path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module

    def mirrored_test(self) -> Path:
        """Where this file's tests belong."""
        relative = self.path.relative_to(PACKAGES[self.package])
        return ROOT / "tests" / TEST_FOLDERS[self.package] / relative.with_name(f"test_{relative.name}")


def source_files() -> list[SourceFile]:
    """Every Python file of the three packages."""
    return [
        SourceFile(package, path) for package, root in PACKAGES.items() for path in sorted(root.rglob("*.py"))
    ]


def python_files() -> list[Path]:
    """Every Python file of the project, benchmarks and tests too."""
    roots = [*PACKAGES.values(), ROOT / "bench", ROOT / "tests"]
    return [path for root in roots for path in sorted(root.rglob("*.py"))]
