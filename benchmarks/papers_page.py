"""Write docs/papers.md from the table in ``reproduce/papers.py``.

python benchmarks/papers_page.py
"""

from pathlib import Path

from commonground.reproduce.papers import as_markdown

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"

if __name__ == "__main__":
    PAGE.write_text(as_markdown(), encoding="utf-8")
