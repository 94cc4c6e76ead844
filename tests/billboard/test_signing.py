"""Signed boards: a forger who makes every checksum agree again is found by whoever has the public key."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from commonground.accounting.events import GaussianEvent
from commonground.accounting.sampled import ADD_OR_REMOVE, SampledGaussianEvent
from commonground.billboard.board import Billboard
from commonground.billboard.joint import JointStatement, SharedParameters
from commonground.billboard.signing import SigningKey, VerifyingKey, new_key
from commonground.billboard.statement import Statement
from commonground.cli import app as cli
from commonground.errors import BillboardError, InputError
from forgery import rewrite

pytest.importorskip("cryptography", reason="the extra 'sign' is not installed")


@pytest.fixture
def board() -> Billboard:
    events = (GaussianEvent("a", 0.1, 2.0, 20.0, 10, False),)
    statement = Statement("Test", "default", 1.0, 1e-6, 100, 4, False, "OpenDP", events)
    return Billboard(np.eye(4, 2), np.arange(4.0), 0.5, True, None, statement)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return new_key(tmp_path / "mine")


def test_a_signed_board_is_read_with_its_public_key(board: Billboard, keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    folder = board.save(tmp_path / "board", sign=private)
    assert sorted(path.name for path in folder.iterdir()) == [
        "billboard.safetensors",
        "statement.json",
        "statement.sig",
    ]
    for key in (public, str(public), VerifyingKey.read(public), None):
        assert Billboard.load(folder, public_key=key).statement == board.statement
    signature = json.loads((folder / "statement.sig").read_text())
    assert signature["public_key_sha256"] == VerifyingKey.read(public).fingerprint


FORGERIES: dict[str, Callable[[Path], object]] = {
    "more people": lambda folder: rewrite(folder, lambda d: d.update(n_users=10**6)),
    "a smaller claim that adds up": lambda folder: rewrite(
        folder, lambda d: d.update(events=[{**d["events"][0], "mu": 0.01, "noise_std": 200.0}], epsilon=0.1, epsilon_spent=0.0335)
    ),
    "other numbers": lambda folder: rewrite(folder, arrays=lambda a: a.update(mean=a["mean"] + 1.0)),
    "an older schema": lambda folder: rewrite(folder, lambda d: d.update(schema_version=3)),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forger_who_recomputes_everything_fails(
    board: Billboard, keys: tuple[Path, Path], tmp_path: Path, forgery: str
) -> None:
    folder = board.save(tmp_path / "board", sign=keys[0])
    FORGERIES[forgery](folder)
    with pytest.raises(BillboardError, match="changed after they were signed"):
        Billboard.load(folder, public_key=keys[1])


def test_a_forger_with_a_key_of_her_own_fails(board: Billboard, keys: tuple[Path, Path], tmp_path: Path) -> None:
    """Also if she writes the fingerprint of the true key beside her signature."""
    theirs, _ = new_key(tmp_path / "theirs")
    folder = board.save(tmp_path / "board", sign=theirs)
    with pytest.raises(BillboardError, match="signed by another key"):
        Billboard.load(folder, public_key=keys[1])
    signature = json.loads((folder / "statement.sig").read_text())
    signature["public_key_sha256"] = VerifyingKey.read(keys[1]).fingerprint
    (folder / "statement.sig").write_text(json.dumps(signature))
    with pytest.raises(BillboardError, match="does not hold"):
        Billboard.load(folder, public_key=keys[1])


def test_a_signature_of_another_board_and_of_other_bytes_fails(
    board: Billboard, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    one = board.save(tmp_path / "one", sign=keys[0])
    other = Billboard(board.embedding, board.mean, 0.25, True, None, board.statement).save(tmp_path / "b", sign=keys[0])
    (other / "statement.sig").write_bytes((one / "statement.sig").read_bytes())
    with pytest.raises(BillboardError, match="does not hold"):
        Billboard.load(other, public_key=keys[1])


def test_no_signature_and_a_damaged_one(board: Billboard, keys: tuple[Path, Path], tmp_path: Path) -> None:
    folder = board.save(tmp_path / "board", sign=keys[0])
    for damage in ("", "[" * 100_000, "{}", '{"public_key_sha256": 1, "signature": "§"}', "\x00"):
        (folder / "statement.sig").write_text(damage, encoding="utf-8")
        with pytest.raises(BillboardError, match="cannot be read as a signature"):
            Billboard.load(folder, public_key=keys[1])
    board.save(folder)
    assert not (folder / "statement.sig").exists(), "an old signature must not stay beside a new statement"
    with pytest.raises(BillboardError, match="is not signed"):
        Billboard.load(folder, public_key=keys[1])


def test_shared_parameters_are_signed_alike(keys: tuple[Path, Path], tmp_path: Path) -> None:
    event = SampledGaussianEvent("steps", 0.01, 4.0, 100, ADD_OR_REMOVE, 1, 1.0, 4.001, 6, False, "user")
    statement = JointStatement("T", "r", 0.5, 1e-6, "user", ADD_OR_REMOVE, 3, 9, 0.01, 4.0, 100, False, "n", (event,))
    folder = SharedParameters({"u": np.ones(6)}, statement).save(tmp_path / "board", sign=keys[0])
    assert SharedParameters.load(folder, public_key=keys[1]).statement == statement
    rewrite(folder, lambda document: document.update(n_owners=300))
    with pytest.raises(BillboardError, match="changed after they were signed"):
        SharedParameters.load(folder, public_key=keys[1])


def test_a_private_key_is_for_its_owner_alone_and_never_written_over(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        private, public = new_key(tmp_path / "k")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    before = private.read_bytes()
    with pytest.raises(InputError, match="never written over"):
        new_key(tmp_path / "k")
    public.unlink()
    with pytest.raises(InputError, match="never written over"):
        new_key(tmp_path / "k")
    assert private.read_bytes() == before
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "trap.pem").symlink_to(victim)
    with pytest.raises(InputError, match="never written over"):
        new_key(tmp_path / "trap")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "trap.public.pem").exists()


def test_files_that_hold_no_key_are_refused_without_showing_them(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    (tmp_path / "text").write_text("secret words")
    for read, files in (
        (SigningKey.read, [public, tmp_path / "text"]),
        (VerifyingKey.read, [private, tmp_path / "text"]),
    ):
        for file in files:
            with pytest.raises(InputError, match="holds no") as caught:
                read(file)
            assert "secret" not in str(caught.value)
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "nowhere")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import x25519

    other = x25519.X25519PrivateKey.generate()
    (tmp_path / "other.pem").write_bytes(
        other.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    with pytest.raises(InputError, match="holds no private Ed25519 key"):
        SigningKey.read(tmp_path / "other.pem")


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """keys new → train --sign → statement --verify; exit code 2 for what is not signed, wrongly signed, or changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "to_people", Console(stderr=True, width=500))

    def commonground(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["commonground", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    rng = np.random.default_rng(0)
    rows = [f"{user},{','.join(f'{x:.4f}' for x in rng.standard_normal(4))}" for user in range(60) for _ in range(4)]
    Path("t.csv").write_text("user_id,a,b,c,y\n" + "\n".join(rows) + "\n")
    train = "train", "t.csv", "--epsilon", 2, "--rounds", 1
    assert commonground("keys", "new", "--out", "mine")[0] == 0
    assert commonground("keys", "new", "--out", "other")[0] == 0
    code, message = commonground("keys", "new", "--out", "mine")
    assert (code, "never written over" in message) == (2, True)
    code, message = commonground(*train, "--out", "none", "--sign", "mine.public.pem")
    assert (code, "holds no private" in message, Path("none").exists()) == (2, True, False)
    assert commonground(*train, "--out", "board", "--sign", "mine.pem")[0] == 0
    assert commonground("statement", "board", "--verify", "mine.public.pem")[0] == 0
    code, message = commonground("statement", "board", "--verify", "other.public.pem")
    assert (code, "signed by another key" in message) == (2, True)
    rewrite(Path("board"), lambda document: document.update(n_users=10**6))
    assert commonground("statement", "board")[0] == 0
    code, message = commonground("statement", "board", "--verify", "mine.public.pem")
    assert (code, "changed after they were signed" in message) == (2, True)
    Path("board/statement.sig").unlink()
    code, message = commonground("statement", "board", "--verify", "mine.public.pem")
    assert (code, "is not signed" in message) == (2, True)


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(InputError, match=r"pip install 'commonground\[sign\]'"):
        new_key("k")
