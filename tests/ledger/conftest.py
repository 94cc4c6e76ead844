"""Every ledger test runs on a SQLite file and on a real PostgreSQL server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # the fault experiments, run here in small

from ledger_faults import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    try:
        server = PostgresServer()
    except ImportError as missing:
        pytest.skip(f"no PostgreSQL server to test with: {missing}")
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()
