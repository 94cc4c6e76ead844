"""How a forger rewrites a board: any change, with every checksum made to agree again."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save


def rewrite(
    folder: Path,
    claim: Callable[[dict[str, Any]], object] = lambda document: None,
    arrays: Callable[[dict[str, np.ndarray]], object] = lambda arrays: None,
) -> Path:
    document = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
    values = load((folder / "billboard.safetensors").read_bytes())
    claim(document)
    arrays(values)
    payload = save(values)
    document["sha256"] = hashlib.sha256(payload).hexdigest()
    del document["statement_sha256"]
    document["statement_sha256"] = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (folder / "billboard.safetensors").write_bytes(payload)
    (folder / "statement.json").write_text(json.dumps(document), encoding="utf-8")
    return folder
