"""A file with what only its owner knows."""

import re
import secrets
from pathlib import Path

from coterie.bounded import read_bytes
from coterie.errors import CoterieError
from coterie.files import write_first

SECRET = re.compile(r"[0-9a-f]{32}")


def secret_in(file: Path, remedy: str) -> str:
    """Return the secret in a file, which is made up at first use; `remedy` says what helps where it is damaged."""
    if not file.exists():
        write_first(file, secrets.token_hex(16).encode(), mode=0o600)
    try:
        secret = read_bytes(file, 2**10).decode("ascii", "replace").strip()
    except ValueError:
        secret = ""
    if not SECRET.fullmatch(secret):
        raise CoterieError(f"'{file}' is damaged: put back a copy, or {remedy}")
    return secret
