"""`commonground federate`: server | node serve | node personalize | simulate."""

import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

from commonground.cli import options
from commonground.cli.ledger import population_for_training
from commonground.cli.options import AsJson, LabelColumn, Table, UserColumn, print_json
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT, MODEL, RANK, SHARED_MEAN
from commonground.errors import InputError
from commonground.files import require_other_file

if TYPE_CHECKING:
    from commonground.data.users import Users
    from commonground.federated.flower import Settings
    from commonground.federated.superlink import ServerTls
    from commonground.ledger import SharedLedger

federate_app = options.new_group(
    "Data that may not move: rows stay at nodes, a server trains over them (Flower; extra 'federated')."
)
node_app = options.new_group("One owner's side: answer the server's questions, fit heads.")
federate_app.add_typer(node_app, name="node")

Nodes = Annotated[int, typer.Option(help="How many nodes take part.")]
Rank = Annotated[int, typer.Option(help="Number of shared directions.")]
Model = Annotated[str, typer.Option(help="'fedrep' (PrivateFedRep) or 'altmin' (PrivateAltMin).")]
Intercept = Annotated[bool, typer.Option(help="Give each person an intercept of her own.")]
SharedMean = Annotated[bool, typer.Option(help="Release a shared linear model first.")]
Rounds = Annotated[int, typer.Option(help="Rounds; 0 for the model's default.")]
Trust = Annotated[
    str, typer.Option(help="Who adds the noise: 'server' (nodes send exact sums) or 'nodes' (each its share).")
]
Tolerate = Annotated[int, typer.Option(help="How many nodes may vanish, for trust 'nodes'.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for a node's answer; then it is not asked again.")]


@federate_app.command()
def server(
    out: options.NewBoard,
    nodes: Nodes,
    host: Annotated[str, typer.Option(help="Address to listen on; the certificate must name it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port for nodes.")] = 8000,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    ca: Annotated[Path | None, typer.Option(help="The authority's certificate (PEM).")] = None,
    node_keys: Annotated[
        Path | None, typer.Option(help="Folder with the public keys (*.pub) of the nodes that may connect.")
    ] = None,
    any_node: Annotated[
        bool,
        typer.Option(
            "--any-node-with-the-certificate",
            help="Instead of --node-keys: train with whoever has the authority's certificate, which is no secret.",
        ),
    ] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without TLS: for one machine only.")] = False,
    rank: Rank = RANK,
    epsilon: options.Epsilon = EPSILON,
    delta: options.Delta = DELTA,
    model: Model = MODEL,
    intercept: Intercept = FIT_INTERCEPT,
    shared_mean: SharedMean = SHARED_MEAN,
    rounds: Rounds = 0,
    trust: Trust = "server",
    tolerate: Tolerate = 0,
    timeout: Timeout = 120.0,
    patience: Annotated[float, typer.Option(help="Seconds to wait until all nodes are there.")] = 3600.0,
    ledger: options.PayingLedger = None,
    population: options.PopulationName = None,
    log_file: Annotated[Path | None, typer.Option(help="File for Flower's own log.")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a SuperLink, wait for the nodes, train over them and publish the billboard."""
    _logging()
    from commonground.federated.flower import Settings
    from commonground.federated.superlink import ServerTls

    tls = None
    if certificate is not None and key is not None and ca is not None:
        tls = ServerTls(_file(certificate), _file(key), _file(ca))
    elif not insecure:
        raise InputError("give --certificate, --key and --ca, or --insecure on a machine where nobody listens.")
    elif host not in ("127.0.0.1", "::1", "localhost"):
        raise InputError(
            f"--insecure is for one machine, and --host {host} is for several: give --certificate, --key and --ca."
        )
    if tls is not None and (node_keys is None) != any_node:
        raise InputError(
            "say who may take part: --node-keys with the folder of the nodes' public keys, or, if everybody who has the "
            "authority's certificate may train, and so decide what is trained, --any-node-with-the-certificate."
        )
    keys = [] if node_keys is None else sorted(node_keys.glob("*.pub"))
    if node_keys is not None and not keys:
        raise InputError(f"{node_keys} holds no public key (*.pub) of a node.")
    if keys and tls is None:
        raise InputError("keys of nodes are checked over TLS only; give --certificate, --key and --ca.")
    settings = Settings(
        nodes=nodes, rank=rank, epsilon=epsilon, delta=delta, model=model, intercept=intercept,
        shared_mean=shared_mean, rounds=rounds, trust=trust, tolerated=tolerate, timeout=timeout,
        patience=patience,
    )  # fmt: skip
    people = population_for_training(ledger, population, out)
    _train(settings, out, host, port, tls, keys, log_file, as_json, ledger=people)


def _train(
    settings: "Settings",
    out: Path,
    host: str,
    port: int,
    tls: "ServerTls | None",
    keys: list[Path],
    log_file: Path | None,
    as_json: bool,
    when_ready: Callable[[], None] = lambda: None,
    ledger: "SharedLedger | None" = None,
) -> None:
    from commonground.federated.flower import GridLink, train
    from commonground.federated.superlink import superlink

    _clean_up_when_terminated(128 + signal.SIGTERM)
    with superlink(host, port, tls, keys, log_file) as link:
        when_ready()
        with link.run(settings.as_config()) as grid:
            wire = GridLink(grid, settings.timeout, link.admitted)
            board = train(wire, settings, ledger)
    board.save(out)
    if as_json:
        questions = [{"to nodes": sent, "from nodes": received} for sent, received in wire.traffic]
        print_json({"billboard": str(out), "bytes": questions, **board.statement.to_json()})
        return
    typer.echo(str(board.statement))
    down, up = (sum(sizes) / len(wire.traffic) for sizes in zip(*wire.traffic, strict=True))
    typer.echo(
        f"Billboard: {out}. {len(wire.traffic)} questions to {settings.nodes} nodes; per question {down:,.0f} bytes to and "
        f"{up:,.0f} bytes from all nodes together."
    )


@node_app.command()
def serve(
    table: Table,
    superlink: Annotated[str, typer.Option(help="The server's address, host:port.")] = "127.0.0.1:8000",
    user: UserColumn = None,
    label: LabelColumn = None,
    features: Annotated[
        str | None, typer.Option(help="Comma-separated feature columns, the same at all nodes; all others by default.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="What each column is, the same at all nodes; see `commonground schema`.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the server's log calls this node.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Certificate of the authority that the server is checked by.")] = None,
    key: Annotated[Path | None, typer.Option(help="This node's private key; the server knows the public one.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without TLS: for one machine only.")] = False,
    trust: Trust = "server",
    epsilon: Annotated[
        float | None, typer.Option(help="For trust 'nodes': the most the server may learn about a person here.")
    ] = None,
    delta: options.Delta = DELTA,
    port: Annotated[int, typer.Option(help="Local port of the SuperNode; 0 finds a free one.")] = 0,
    patience: Annotated[
        float, typer.Option(help="Seconds to go on trying while the server refuses this node and asks nothing.")
    ] = 3600.0,
    log_file: Annotated[Path | None, typer.Option(help="File for Flower's own log.")] = None,
) -> None:
    """Serve the sums over the people of a table until interrupted. Rows do not leave."""
    _logging()
    from commonground.cli.tables import people_of_table
    from commonground.federated.node import node_of
    from commonground.federated.processes import serve as answer_questions
    from commonground.federated.processes import supernode

    if ca is None and not insecure:
        raise InputError("give --ca, by which the server is checked, or --insecure on a machine where nobody listens.")
    if key is not None and ca is None:
        raise InputError("a key proves who this node is over TLS only; give --ca.")
    users = people_of_table(table, user=user, label=label, features=features, schema=schema)
    if not users.features_are_known:
        raise InputError('values = "discover" is not built for nodes: give the values by name, the same at all nodes.')
    node = node_of(users, name or table.stem, trust, epsilon, delta)
    _clean_up_when_terminated(0)
    authority, own_key = (None if path is None else _file(path) for path in (ca, key))
    typer.echo(f"{node.name} serves {users.n_users:,} people under trust {trust!r}. Interrupt to stop.", err=True)
    answer_questions(node, lambda: supernode(superlink, authority, own_key, port, log_file), patience)


@node_app.command()
def personalize(
    billboard: Annotated[Path, typer.Argument(help="Folder of the published billboard.")],
    table: Table,
    out: Annotated[Path, typer.Option("--out", help="File for the heads (.parquet); it stays at this node.")],
    user: UserColumn = None,
    label: LabelColumn = None,
    as_json: AsJson = False,
) -> None:
    """Fit a head for each person of this node from the billboard and her own rows. Nothing is sent."""
    from commonground.billboard.board import Billboard
    from commonground.cli.tables import newcomers_in
    from commonground.heads.files import Heads

    require_other_file(out, table, billboard)
    board = Billboard.load(billboard)
    users = newcomers_in(board, table, user, label)
    Heads.fit(board, users).save(out, board)
    told = f"Fitted {users.n_users:,} heads into {out}. They are private: give each person only her own."
    options.answer(told, {"heads": str(out), "people": users.n_users}, as_json)


@federate_app.command()
def simulate(
    table: Table,
    out: options.NewBoard,
    nodes: Nodes = 4,
    user: UserColumn = None,
    label: LabelColumn = None,
    rank: Rank = RANK,
    epsilon: options.Epsilon = EPSILON,
    delta: options.Delta = DELTA,
    model: Model = MODEL,
    intercept: Intercept = FIT_INTERCEPT,
    shared_mean: SharedMean = SHARED_MEAN,
    rounds: Rounds = 0,
    trust: Trust = "server",
    tolerate: Tolerate = 0,
    timeout: Timeout = 120.0,
    as_json: AsJson = False,
) -> None:
    """The whole federation on this machine: a table's people dealt out to nodes, TLS and keys made for the occasion."""
    _logging()
    from commonground.accounting.budgets import Budget
    from commonground.data.users import Users
    from commonground.federated.flower import Settings
    from commonground.federated.guarantee import NoiseShares, epsilon_to_the_server
    from commonground.federated.keys import make_certificates, make_node_key
    from commonground.federated.processes import free_port
    from commonground.federated.superlink import ServerTls

    user, label = user or "user_id", label or "y"
    users = Users.from_table(table, user=user, label=label)
    if not 1 <= nodes <= users.n_users:
        raise InputError(f"{users.n_users:,} people cannot be dealt out to {nodes} nodes.")
    settings = Settings(
        nodes=nodes, rank=rank, epsilon=epsilon, delta=delta, model=model, intercept=intercept,
        shared_mean=shared_mean, rounds=rounds, trust=trust, tolerated=tolerate, timeout=timeout,
    )  # fmt: skip
    budget: list[str] = []
    if trust == "nodes":
        allowed = epsilon_to_the_server(Budget(epsilon, delta), NoiseShares(nodes, tolerate))
        budget = ["--epsilon", repr(allowed * (1 + 1e-6)), "--delta", repr(delta)]
    with tempfile.TemporaryDirectory(prefix="commonground-simulate-") as scratch:
        folder = Path(scratch)
        made, port = make_certificates(folder), free_port()
        parts = dealt_out(users, nodes, folder, user, label)
        keys = [make_node_key(folder, part.stem) for part in parts]
        children: list[subprocess.Popen[bytes]] = []

        def start_nodes() -> None:
            for part, key in zip(parts, keys, strict=True):
                command = ["node", "serve", part, "--superlink", f"127.0.0.1:{port}", "--ca", made.authority]
                command += ["--key", key, "--user", user, "--label", label, "--trust", trust, *budget]
                children.append(_start(*command))

        try:
            tls = ServerTls(made.certificate, made.key, made.authority)
            public = [key.with_name(key.name + ".pub") for key in keys]
            _train(settings, out, "127.0.0.1", port, tls, public, None, as_json, start_nodes)
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait()


def dealt_out(users: "Users", nodes: int, folder: Path, user: str, label: str) -> list[Path]:
    """One Parquet file for each node, with about as many people each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = users.feature_names or tuple(f"x{column}" for column in range(users.n_features))
    paths = [folder / f"node-{node + 1}.parquet" for node in range(nodes)]
    kind = pa.from_numpy_dtype(next(iter(users.blocks())).X.dtype)
    ids = pa.array(list(users.ids))
    schema = pa.schema([(user, ids.type), *((name, kind) for name in names), (label, kind)])
    writers = [pq.ParquetWriter(path, schema) for path in paths]
    for block in users.blocks():
        person = block.first + block.person_of_row
        node = person * nodes // users.n_users
        for at, writer in enumerate(writers):
            here = node == at
            if here.any():
                columns = [ids.take(pa.array(person[here])), *block.X[here].T, block.y[here]]
                writer.write_table(pa.table(columns, schema=schema))
    for writer in writers:
        writer.close()
    return paths


def _clean_up_when_terminated(code: int) -> None:
    """Leave by an exception, so that children end and folders go; a signal by itself would end the process on the spot."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))


def _start(*command: Any) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", "from commonground.cli import main; main()", "federate"]
    return subprocess.Popen([*program, *map(str, command)])


def _file(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is not a file.")
    return path


def _logging() -> None:
    try:
        import commonground.federated.wire  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(f"`federate` needs Flower ({missing.name}): pip install 'commonground[federated]'.") from None
    log = logging.getLogger("commonground.federated")
    if not log.handlers:
        log.addHandler(RichHandler(console=Console(stderr=True), show_path=False))
    log.setLevel(logging.INFO)
