"""The tables of the tuning database, and how a file tells that it has them."""

import sqlite3

APPLICATION = 0x53575452
"""SQLite's `application_id` of our files: the letters SWTR."""
VERSION = 1
"""The version of the tables (`user_version`): increase it with any change, and convert older files in `create`."""

TABLES = {
    "provenance": "id INTEGER PRIMARY KEY, fields TEXT NOT NULL UNIQUE",
    "runs": """id INTEGER PRIMARY KEY, machine TEXT NOT NULL, provenance INTEGER NOT NULL REFERENCES provenance, began REAL NOT NULL,
        changed REAL NOT NULL, network TEXT NOT NULL, content TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL, seed INTEGER NOT NULL,
        budget REAL NOT NULL, spent REAL NOT NULL, status TEXT NOT NULL, ratio REAL, low REAL, high REAL, plan TEXT NOT NULL""",
    "workloads": """id INTEGER PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL, above TEXT NOT NULL, target TEXT NOT NULL,
        threads INTEGER NOT NULL, name TEXT NOT NULL, network TEXT NOT NULL, nodes TEXT NOT NULL, features TEXT NOT NULL,
        UNIQUE (kind, content, above, target, threads)""",
    "candidates": """workload INTEGER NOT NULL REFERENCES workloads ON DELETE CASCADE, machine TEXT NOT NULL, text TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs, changed REAL NOT NULL, strategy TEXT NOT NULL, state TEXT NOT NULL, message TEXT NOT NULL,
        predicted REAL, features TEXT NOT NULL, code TEXT NOT NULL, build_seconds REAL NOT NULL, UNIQUE (workload, machine, text)""",
    "samples": """workload INTEGER NOT NULL REFERENCES workloads ON DELETE CASCADE, run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
        number INTEGER NOT NULL, text TEXT NOT NULL, against TEXT NOT NULL, phase TEXT NOT NULL, log_ratios TEXT NOT NULL, seconds REAL NOT NULL,
        clock TEXT NOT NULL, discarded INTEGER NOT NULL, UNIQUE (run, number)""",
    "decisions": """workload INTEGER NOT NULL REFERENCES workloads ON DELETE CASCADE, machine TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, changed REAL NOT NULL, withdrawn INTEGER NOT NULL, text TEXT NOT NULL,
        baseline TEXT NOT NULL, ratio REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, p REAL NOT NULL, UNIQUE (workload, machine)""",
    "stamps": "target TEXT NOT NULL, threads INTEGER NOT NULL, machine TEXT NOT NULL, stamp TEXT NOT NULL, PRIMARY KEY (target, threads, machine)",
}
"""The columns of each table. Mappings and sequences are JSON; times are seconds since 1970. Machines are digests (see `RunRecord.machine`)."""
INDEXES = {
    "runs": "content, target, threads",
    "workloads": "target, threads",
    "candidates": "run",
    "samples": "workload, text",
    "decisions": "run",
}
"""For a table, the columns of an index besides those of its unique constraints."""


def create(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database, inside the transaction of the caller; nothing if they exist."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
        for name, columns in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        for name, columns in INDEXES.items():
            connection.execute(f"CREATE INDEX {name}_index ON {name} ({columns})")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def in_memory() -> sqlite3.Connection:
    """An empty database in memory, for any thread."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    create(connection)
    return connection


def kind_of_file(connection: sqlite3.Connection) -> tuple[str, int]:
    """`ours`, `empty`, `foreign` for a database of another program, or `damaged`; and the version of its tables. Raises sqlite3.Error."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION:
        return ("ours" if version > 0 else "damaged"), version
    has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    return ("foreign" if has_tables or version or application else "empty"), version


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether the file has all tables with their columns, and SQLite's quick check finds nothing."""
    try:
        for name in TABLES:
            found = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            if not found or any(column not in found for column in columns_of(name)):
                return False
        return connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
    except sqlite3.Error:
        return False


def columns_of(table: str) -> list[str]:
    """The names of the columns of a table."""
    words = [part.split() for part in TABLES[table].split(",")]
    types = ("INTEGER", "REAL", "TEXT")
    return [word[0] for word in words if len(word) > 1 and word[1] in types]
