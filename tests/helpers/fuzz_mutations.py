"""Mutate valid files at random: bytes, and contents of formats that a checksum or a length would protect."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

_EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1]
_TOKENS = [
    b"", b"0", b"-1", b"1e999", b"nan", b"999999999999999999999", b"{}", b"[]", b'"', b"\0", b"\n", b",", b"..",
    b"\xff\xfe", b"\xed\xa0\x80", b"'O'", b"<U0", b"True",
]  # fmt: skip
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 0.5, -1e308, 2**31, 2**63, -(2**64), 10**30, "", "x", "\0", "\ud800", "../../x",
    "/etc/passwd", "e" * 3000, [], {}, [None], [[]], {"": None}, [0] * 50, {"py/object": "os.system"},
]  # fmt: skip
_RAW = ["1e400", "-1e400", "NaN", "Infinity", "9" * 5000, "[" * 3000 + "]" * 3000, '{"a":1,"a":2}', "00", "1.", "'x'"]
_PLACE = "@raw@"
_NPY_TYPES = [
    b"|O", b"<U0", b"<U9", b"|V0", b"|S0", b"<f2", b">f8", b"<c16", b"<i1", b"<M8[s]", b"<f16", b"|b1", b"<u8",
]  # fmt: skip
_NPY_SHAPES = [
    b"()", b"(0,)", b"(-1,)", b"(2**63,)", b"(9999999999999,)", b"(3, 0)", b"(0, 99999999999)", b"(1, 1)",
    b"(True, 3)", b"(2, 3, 4)", b"(-3, -4)", b"(4611686018427387904, 4)",
]  # fmt: skip

Rng = random.Random


def mutate(content: bytes, rng: Rng) -> bytes:
    """Make one to four changes, of bytes or of the format's contents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        inside = _inside(content)
        if inside is not None and rng.random() < 0.6:
            content = inside(content, rng)
        else:
            content = rng.choice(_BYTES)(content, rng)
    return content


def _flip(content: bytes, rng: Rng) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, rng: Rng) -> bytes:
    changed = bytearray(content or b"\0")
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut_off(content: bytes, rng: Rng) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _delete(content: bytes, rng: Rng) -> bytes:
    first = rng.randrange(len(content) + 1)
    return content[:first] + content[first + rng.choice((1, 2, 4, 16, 200)) :]


def _insert(content: bytes, rng: Rng) -> bytes:
    place = rng.randrange(len(content) + 1)
    some = rng.choice([rng.randbytes(rng.choice((1, 2, 8, 64))), bytes(rng.choice((1, 8, 4096))), rng.choice(_TOKENS)])
    return content[:place] + some + content[place:]


def _splice(content: bytes, rng: Rng) -> bytes:
    """Copy a part of the file to another place in it."""
    first, place = rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)
    stretch = content[first : first + rng.choice((1, 4, 16, 100, 1000))]
    return content[:place] + stretch + content[place + rng.choice((0, len(stretch))) :]


def _extreme_number(content: bytes, rng: Rng) -> bytes:
    """Insert a binary number, like a size, count or offset; mostly near either end of the file."""
    width = rng.choice((1, 2, 4, 8))
    changed = bytearray(content.ljust(width, b"\0"))
    reach = rng.choice((len(changed), min(len(changed), 64)))
    place = rng.randrange(reach - width + 1)
    if rng.random() < 0.3:
        place = len(changed) - width - place
    value = rng.choice([*_EXTREMES, rng.getrandbits(8 * width), len(content) + 1]) % 2 ** (8 * width)
    changed[place : place + width] = value.to_bytes(width, rng.choice(("little", "big")))
    return bytes(changed)


def _token(content: bytes, rng: Rng) -> bytes:
    """Replace a part of the text."""
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(_TOKENS) + content[place + rng.choice((1, 2, 5)) :]


_BYTES = [_flip, _overwrite, _cut_off, _delete, _insert, _splice, _extreme_number, _extreme_number, _token]


def _inside(content: bytes) -> Callable[[bytes, Rng], bytes] | None:
    """Return the function that changes the contents of this format, if it is known."""
    if content.startswith(b"PK\3\4"):
        return _zip
    if content.startswith(b"\x1f\x8b"):
        return _gzip
    if content.startswith(b"\x93NUMPY"):
        return _npy
    if content[8:9] == b"{":
        return _safetensors
    return _json if content[:1] in (b"{", b"[") else None


def _zip(content: bytes, rng: Rng) -> bytes:
    """Change or rename members, with valid checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:  # a change before this one broke it
        return _flip(content, rng)
    if not members:
        return content
    name = rng.choice(sorted(members))
    old = members.pop(name)
    if rng.random() < 0.2:
        name = rng.choice(["../" + name, "/" + name, "x", "logits.npy", "labels.npy", name + ".npy", "a/" + name])
    members[name] = mutate(old, rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for key, value in members.items():
            archive.writestr(key, value)
    return stream.getvalue()


def _gzip(content: bytes, rng: Rng) -> bytes:
    try:
        return gzip.compress(mutate(gzip.decompress(content), rng), 1, mtime=0)
    except Exception:
        return _flip(content, rng)


def _npy(content: bytes, rng: Rng) -> bytes:
    """Change type or shape in the header."""
    end = content.find(b"\n")
    header = content[10:end]
    if rng.random() < 0.5:
        before, after = header.find(b"'descr': ") + 9, header.find(b", 'f")
        header = header[:before] + b"'" + rng.choice(_NPY_TYPES) + b"'" + header[after:]
    else:
        header = header[: header.find(b"'shape': ") + 9] + rng.choice(_NPY_SHAPES) + b", }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return content[:8] + struct.pack("<H", len(header)) + header + content[end + 1 :]


def _safetensors(content: bytes, rng: Rng) -> bytes:
    """Replace the header by another one, with its length."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    changed = _json(header, rng) if rng.random() < 0.7 else mutate(header, rng)
    return struct.pack("<Q", len(changed)) + changed + content[8 + length :]


def _json(content: bytes, rng: Rng) -> bytes:
    """Change a value, add or remove a key, or break the JSON; in a file of lines, in one line."""
    lines = content.split(b"\n") if b"}\n{" in content else [content]
    chosen = rng.randrange(len(lines))
    try:
        value = json.loads(lines[chosen])
    except (ValueError, RecursionError):
        return _token(content, rng)
    holder = [value]
    parent, key = rng.choice(list(_places(holder)))
    how = rng.random()
    if how < 0.5:
        parent[key] = rng.choice(_VALUES)
    elif how < 0.65 and parent is not holder:
        del parent[key]
    elif how < 0.75 and isinstance(parent, dict):
        parent[rng.choice(["", "x", "__proto__", key + " "])] = parent[key]
    elif how < 0.85:
        other, where = rng.choice(list(_places(holder)))
        parent[key] = json.loads(json.dumps(other[where]))
    else:
        parent[key] = _PLACE
    text = json.dumps(holder[0], ensure_ascii=rng.random() < 0.5).replace(json.dumps(_PLACE), rng.choice(_RAW))
    lines[chosen] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _places(holder: Any) -> Any:
    """Return the place of every value in a tree: its container and key."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key])
