"""What a build gives, as one tar.gz: the files of each resource type and what is known of them.

    release.json                 what the library registers, versions, digests
    release/<resource type>/...  everything the project put into its release folder

Equal content gives equal bytes: names are sorted, times and owners are left out.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dflow_core.errors import CompileError, PackagingError
from dflow_pne_udf.building.unpacked import LIBRARY, unpacked_folder, unpacked_library

INFO = "release.json"
GZIP = b"\x1f\x8b"
_FORMAT = 1
_LARGEST = 200 << 20


@dataclass(frozen=True, slots=True)
class Release:
    """What is known of a built library.

    Args:
        target_bin: Name of the library.
        compilers: Version of the compiler for each resource type it was built for.
        registered: Functions the library registers, as `kind name`; None where it could not be asked.
        problem: Why it could not be asked.
        sdk: Fingerprint of the SDK it was built with.
        digests: SHA-256 of each file.
    """

    target_bin: str
    compilers: Mapping[str, str] = field(default_factory=dict)
    registered: tuple[str, ...] | None = None
    problem: str = ""
    sdk: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


def pack_release(release: Release, folders: Mapping[str, Path]) -> bytes:
    """The package of a release.

    Args:
        release: What is known of it; digests are added.
        folders: Release folder of each resource type.

    Raises:
        CompileError: the files are larger than 200 MiB together, or one leaves its folder by a link.
    """
    names = {f"release/{kind}/{name}": folder / name for kind, folder in folders.items() for name in _contents(folder)}
    total = sum(path.stat().st_size for path in names.values() if path.is_file())
    if total > _LARGEST:
        text = f"the release folder holds {total} bytes; expected at most {_LARGEST}"
        raise CompileError(f"{release.target_bin}: {text}")
    digests = {name: _digest(path) for name, path in names.items() if path.is_file() and not path.is_symlink()}
    info = {"format": _FORMAT, **asdict(release), "digests": digests}
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as packed, tarfile.TarFile(
        fileobj=packed, mode="w", format=tarfile.PAX_FORMAT
    ) as tar:
        _add_bytes(tar, INFO, json.dumps(info, sort_keys=True, ensure_ascii=False).encode())
        for name, path in sorted(names.items()):
            _add_file(tar, name, path)
    return buffer.getvalue()


def open_release(package: bytes) -> Release:
    """What a package says of itself.

    Raises:
        PackagingError: the bytes are no package of a C++ function.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as tar:
            member = tar.next()
            file = tar.extractfile(member) if member is not None and member.name == INFO else None
            if file is None:
                raise PackagingError(f"a package of a C++ function begins with {INFO}; this one does not")
            return _read_info(file.read())
    except (tarfile.TarError, OSError, EOFError, ValueError, KeyError, TypeError) as cause:
        if isinstance(cause, PackagingError):
            raise
        raise PackagingError(f"the package of a C++ function is broken: {cause}") from cause


def unpack_release(package: bytes, resource_type: str, store: str) -> Path:
    """The folder with the files of a package; unpacked once for all processes that share a store.

    Args:
        package: The package.
        resource_type: Whose files.
        store: Folder they are kept in, by content.

    Returns:
        The folder; files in it are not to be changed.

    Raises:
        PackagingError: the package is broken, or holds nothing for this resource type.
    """
    target = Path(unpacked_folder(package, resource_type, store))
    if unpacked_library(str(target)):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".tmp-", dir=target.parent))
    try:
        count = _extract(package, f"release/{resource_type}/", made)
        if not count:
            built = ", ".join(sorted(open_release(package).compilers))
            raise PackagingError(
                f"the C++ function was built for {built or 'nothing'}, this machine is {resource_type}",
                hint="build it here, or name a compiler for this machine in the toolchain file",
            )
        (made / LIBRARY).symlink_to(open_release(package).target_bin)
        made.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was quicker; its files are the same
            made.rename(target)
        return target
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _read_info(data: bytes) -> Release:
    info = json.loads(data)
    if info.pop("format") != _FORMAT:
        raise PackagingError("the package of a C++ function was made by another version of dflow-pne-udf")
    registered = info.pop("registered")
    return Release(registered=None if registered is None else tuple(registered), **info)


def _contents(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            aim = posixpath.normpath(posixpath.join(path.relative_to(folder).parent.as_posix(), os.readlink(path)))
            if aim.startswith(("../", "/")):
                raise CompileError(f"{path} is a link to {os.readlink(path)}, outside of the release folder")
        if path.is_file() or path.is_symlink():
            yield path.relative_to(folder).as_posix()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    tar.addfile(info, io.BytesIO(data))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> None:
    info = tarfile.TarInfo(name)
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        tar.addfile(info)
        return
    stat = path.stat()
    info.size, info.mode = stat.st_size, 0o755 if stat.st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        tar.addfile(info, file)


def _extract(package: bytes, prefix: str, folder: Path) -> int:
    """Write the files below a prefix into a folder; says how many there were."""
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as tar:
            for member in tar:
                name = member.name.removeprefix(prefix)
                if name == member.name or posixpath.normpath(name).startswith(("../", "/")):
                    continue
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if member.issym():
                    path.symlink_to(member.linkname)
                elif (file := tar.extractfile(member)) is not None:
                    path.write_bytes(file.read())
                    path.chmod(0o755 if member.mode & 0o100 else 0o644)
                count += 1
    except (tarfile.TarError, OSError, EOFError) as cause:
        raise PackagingError(f"the package of a C++ function cannot be unpacked: {cause}") from cause
    return count
