"""Changes to bytes of some formats that lie where it hurts: lengths, shapes, checksums, and what unpacks to much."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from functools import cache
from random import Random

from fuzz_mutations import BLIND, INTEGERS, Mutation, changed_tree, number, written

from coterie import files

BOMB = 3 * 10**8
"""Bytes that a bomb unpacks to; more than the 200 MB that a reader may take."""


def blind(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change bytes in a way that knows nothing of them."""
    return luck.choice(BLIND)(content, others, luck)


def safetensors(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change the header in its structure, the metadata in theirs, or the length; mostly with a digest that is right."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.get("__metadata__", {})
    inner = [key for key, value in metadata.items() if value[:1] in "{["]
    if inner and luck.random() < 0.6:
        key = luck.choice(inner)
        metadata[key] = written(changed_tree(json.loads(metadata[key]), luck), separators=(",", ":"))
    else:
        header = changed_tree(header, luck)
    text = written(header, separators=(",", ":")).encode()
    said = luck.choice([len(text)] * 8 + [0, 2**31, 2**63 - 1, 2**64 - 1])
    changed = said.to_bytes(8, "little") + text + data
    return sealed(changed) if luck.random() < 0.9 else changed


def sealed(content: bytes) -> bytes:
    """Put the digest of a file of Coterie right: whoever wrote it could, too."""
    try:
        return files.sealed(content)[0]
    except ValueError:  # it has none
        return content


def npy(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Lie in the header of an array: its type, its order, its shape."""
    length = int.from_bytes(content[8:10], "little")
    header, data = content[10 : 10 + length].decode("latin1").rstrip(), content[10 + length :]
    kinds = (
        "'<f8'",
        "'|O'",
        "'<U9'",
        "'>i2'",
        "'<c16'",
        "'|V8'",
        "'<M8[s]'",
        "[('a','<f4')]",
        "'|S0'",
        "'<f99'",
        "'(2,)f4'",
    )
    before, shape = (
        header.partition("'shape'")[0],
        ", ".join(str(luck.choice([*INTEGERS, 3, 10, 10**5])) for _ in range(luck.randrange(6))),
    )
    match luck.randrange(4):
        case 0:
            header = header.replace("'descr': '|u1'", f"'descr': {luck.choice(kinds)}")
            header = header.replace("'descr': '<i8'", f"'descr': {luck.choice(kinds)}")
        case 1:
            header = f"{before}'shape': ({shape}{',' if shape else ''}), }}"
        case 2:
            header = number(header.encode("latin1"), (), luck).decode("latin1")
        case _:
            nested = luck.choice([10, 150, 5000])
            header = f"{before}'shape': {'(' * nested}{')' * nested}, }}"
    text = header.encode("latin1") + b"\n"
    return content[:8] + (len(text) % 65536).to_bytes(2, "little") + text + data


def zipped(*known: Mutation) -> Mutation:
    """Make a mutation of archives from mutations of their members."""

    def change(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
        if not members:
            return content
        at = luck.randrange(len(members))
        name, member = members[at]
        match luck.randrange(8):
            case 0:
                members[at] = (luck.choice(["", "../x.npy", "/x", "x" * 300, "x.npy/", members[0][0]]), member)
            case 1:
                members.append((name, luck.choice(members)[1]))
            case 2:
                del members[at]
            case 3:
                return _lying_zip(content, luck)
            case 4 if luck.random() < 0.15:
                return _zip([*members[:at], (name, bomb_of(member)), *members[at + 1 :]])
            case _:
                members[at] = (name, luck.choice([*known, *known, blind])(member, [m for _, m in members], luck))
        return _zip(members)

    return change


def _zip(members: Sequence[tuple[str, bytes]]) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, member in members:
            archive.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _lying_zip(content: bytes, luck: Random) -> bytes:
    """Write something else into a field of the list at the end of an archive."""
    entries = [at for at in range(len(content) - 46) if content[at : at + 4] == b"PK\x01\x02"]
    changed, at = bytearray(content), luck.choice(entries)
    offset, width = luck.choice([(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)])
    changed[at + offset : at + offset + width] = (luck.choice(INTEGERS) % 256**width).to_bytes(width, "little")
    return bytes(changed)


def bomb_of(member: bytes) -> bytes:
    """Return an array of zeros that takes a lot of memory, with a header that is right for it, else zeros."""
    if member[:6] != b"\x93NUMPY":
        return member + bytes(BOMB)
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({BOMB // 64}, 8, 8), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(BOMB)


@cache
def bomb(kind: str) -> bytes:
    """Return compressed zeros."""
    return gzip.compress(bytes(BOMB), 6, mtime=0) if kind == "gz" else bz2.compress(bytes(BOMB))


def compressed(*known: Mutation) -> Mutation:
    """Make a mutation of gzip, bzip2 or tar.gz from mutations of what is in it."""

    def change(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
        kind = "gz" if content[:2] == b"\x1f\x8b" else "bz2"
        unpack, pack = (gzip.decompress, gzip.compress) if kind == "gz" else (bz2.decompress, bz2.compress)
        inside = unpack(content)
        if luck.random() < 0.1:
            return content + bomb(kind) if luck.random() < 0.5 else bomb(kind)
        if inside[257:262] == b"ustar":
            return pack(_tar(inside, known, luck))
        return pack(luck.choice([*known, blind])(inside, (), luck))

    return change


def _tar(content: bytes, known: Sequence[Mutation], luck: Random) -> bytes:
    members: list[tuple[tarfile.TarInfo, bytes]] = []
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for info in archive:
            file = archive.extractfile(info)
            members.append((info, file.read() if file else b""))
    at = luck.randrange(len(members))
    info, member = members[at]
    match luck.randrange(5):
        case 0:
            info.name = luck.choice(["../../x", "/etc/x", "x" * 5000, members[0][0].name])
        case 1:
            info.type, info.linkname = (
                luck.choice([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE]),
                members[0][0].name,
            )
        case 2:
            return blind(content, (), luck)
        case _:
            member = luck.choice([*known, blind])(member, [m for _, m in members], luck)
            info.size, members[at] = len(member), (info, member)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for info, member in members:
            archive.addfile(info, io.BytesIO(member) if info.isreg() else None)
    return packed.getvalue()


def pickled(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Put opcodes into a pickle: memo indices, nesting, lengths, names, and such as build on what is there."""
    at = luck.choice([2, len(content) - 1, luck.randrange(len(content))])
    many = luck.choice([1, 100, 5000, 200_000])
    codes = [
        b"r" + struct.pack("<I", luck.choice([2**31, 2**32 - 1])), b"p9999999999999\n", b"j" + struct.pack("<I", 2**31),
        b"N" + b"\x85" * many, b"(" * many, b"]" * many + b"a" * (many - 1), b"}" * many, b"0" * many, b"2" * many,
        b"\x8e" + struct.pack("<Q", luck.choice([2**31, 2**63])), b"T" + struct.pack("<i", -1), b"cos\nsystem\n",
        b"\x95" + struct.pack("<Q", 2**40), b"\x8b" + struct.pack("<i", 2**30), b"I" + b"9" * many + b"\n", b"Px\n",
        b"L" + b"9" * many + b"L\n", b"cnumpy\ndtype\n", b"i__builtin__\neval\n", b"}NNs", b"](lQ", b"\x8f(]\x90",
        *(bytes([code]) for code in b"\x81\x92bRusetdlo\x93."), b"G" + struct.pack(">d", float("nan")), b"Vx\\ud800\n",
        b"S'\\x\n", b"}](ss",
    ]  # fmt: skip
    return content[:at] + luck.choice(codes) + content[at + luck.choice([0, 0, 1, 4]) :]


def png(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change a chunk of a PNG file and put its checksum right; sizes are among what is changed."""
    chunks, at = [], 8
    while at + 12 <= len(content):
        size = int.from_bytes(content[at : at + 4], "big")
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    place = luck.randrange(len(chunks))
    name, body = chunks[place]
    match luck.randrange(5):
        case 0:
            side = struct.pack(">II", luck.choice([1, 20_000, 2**31 - 1, 0]), luck.choice([1, 20_000, 2**31 - 1, 8]))
            chunks[0] = (
                b"IHDR",
                side + bytes([luck.choice([1, 8, 16]), luck.choice([0, 2, 3, 6]), 0, 0, luck.choice([0, 1])]),
            )
        case 1:
            chunks[-1:-1] = [(b"zTXt", b"k\0\0" + zlib.compress(bytes(luck.choice([10, 10**8]))))]
        case 2:
            chunks.insert(
                place, luck.choice([(name, body), (b"fcTL", bytes(26)), (b"acTL", b"\xff" * 8), (b"PLTE", bytes(7))])
            )
        case 3:
            del chunks[place]
        case _:
            chunks[place] = (name, blind(body, (), luck))
    return content[:8] + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


def mat(content: bytes, others: Sequence[bytes], luck: Random) -> bytes:
    """Change a MATLAB file in its header, or in an element that is compressed."""
    at, elements = 128, []
    while at + 8 <= len(content):
        kind, size = struct.unpack("<II", content[at : at + 8])
        body = content[at + 8 : at + 8 + size]
        elements.append((kind, zlib.decompress(body) if kind == 15 else body))
        at += 8 + size
    place = luck.randrange(len(elements))
    kind, body = elements[place]
    elements[place] = (kind, body[:8] + bytes(BOMB) if luck.random() < 0.03 else blind(body, (), luck))
    packed = [(kind, zlib.compress(body, 1) if kind == 15 else body) for kind, body in elements]
    return content[:128] + b"".join(struct.pack("<II", kind, len(body)) + body for kind, body in packed)
