"""What docs/architecture.md counts, for the tree at hand or for commits.

.venv/bin/python benchmarks/house_counts.py             # src/ as it is
.venv/bin/python benchmarks/house_counts.py 523f885 HEAD
"""

import io
import re
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTED = {
    "isinstance": r"isinstance\(",
    "getattr": r"getattr\(",
    "hasattr": r"hasattr\(",
    "_personal": r"_personal\b",
    "shared is None": r"shared is None",
    "/ rounds ** 0.5": r"/ (\w+\.)?(n_)?rounds ?\*\* ?0\.5",
    "fmt: skip": r"fmt: skip",
    "local_intercept": r"\blocal_intercept\b",
    "unittest": r"\bunittest\b",
}


def sources(commit: str | None) -> dict[str, str]:
    """File → text below src/."""
    if commit is None:
        return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = [member for member in tar.getmembers() if member.name.endswith(".py")]
        return {member.name: (tar.extractfile(member) or io.BytesIO()).read().decode() for member in members}


def counts(files: dict[str, str]) -> dict[str, int]:
    """Lines that hold each of ``COUNTED``; lines, files, and files above 400 lines."""
    lines = [line for text in files.values() for line in text.splitlines()]
    found = {name: sum(bool(re.search(pattern, line)) for line in lines) for name, pattern in COUNTED.items()}
    long = sum(len(text.splitlines()) > 400 for text in files.values())
    return {**found, "lines": len(lines), "files": len(files), "above 400 lines": long}


if __name__ == "__main__":
    for commit in sys.argv[1:] or [None]:
        print(commit or "src/", counts(sources(commit)))
