"""Large data in a store of files or objects, with its name in the record (claim check).

Decides which data is stored there, and its name; it removes none.
"""

import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import PayloadDamaged, SettingsInvalid
from hourhand.actors.model.values.public import public
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.payloads.codec import EncodedPayload, OpenedTooLarge
from hourhand.scheduler.runtime.durable_names import sync_folder, sync_folder_and_above

_DIGEST_CHARS = 64


@public("hourhand.payloads")
class ClaimCheck:
    """Keeps data above ``threshold_bytes`` in a store, and its name in the record.

    ``url`` is a folder or bucket that fsspec opens, such as ``s3://bucket/claims`` or
    ``file:///mnt/claims``; ``options`` are those of its file system. Put it last: data that is
    encrypted before is stored encrypted. Data is stored before the record is sent, under the hash
    of its content. Raises SettingsInvalid if the store cannot be opened, or fsspec or the package
    of a store is missing.
    """

    name = "claim-check"
    blocks = True
    keeps_elsewhere = True

    def __init__(self, url: str, threshold_bytes: int = 100_000, **options: Any) -> None:
        if type(threshold_bytes) is not int or threshold_bytes < 1:
            raise SettingsInvalid(
                f"threshold_bytes of ClaimCheck is {shown(threshold_bytes)}, 1 or more is needed"
            )
        with required_by("ClaimCheck"):
            import fsspec
        try:
            self._files, self._root = fsspec.url_to_fs(url, **options)
        except (ImportError, ValueError, TypeError) as error:
            raise SettingsInvalid(f"ClaimCheck cannot open {shown(url)}: {error}") from error
        self._is_local = "file" in _protocols(self._files.protocol)
        self._threshold_bytes = threshold_bytes
        self._durable_folders: set[Path] = set()

    def __repr__(self) -> str:
        return f"ClaimCheck(threshold_bytes={self._threshold_bytes})"

    def knows(self, key_id: str | None) -> bool:
        """True for every text: there is no key."""
        return key_id is None

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        """Put large data into the store, and return its name; blocks for that."""
        del bound_to
        if len(data) <= self._threshold_bytes:
            return None
        digest = sha256(data).hexdigest()
        path = self._path_of(digest)
        if self._is_local:
            self._write_durably(Path(path), data)
        else:
            self._files.pipe_file(path, data)
        return EncodedPayload(digest.encode())

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Fetch the data of a name; PayloadDamaged if it differs from what was stored.

        Raises the errors of the store, FileNotFoundError for missing data.
        """
        return self.decode_within(data, key_id, bound_to, sys.maxsize)

    def decode_within(
        self, data: bytes, key_id: str | None, bound_to: bytes, bytes_max: int
    ) -> bytes:
        """Fetch the data of a name, after the store has reported that it is not larger; as
        ``decode``.
        """
        del key_id, bound_to
        digest = data.decode("ascii", errors="replace")
        if len(digest) != _DIGEST_CHARS or not set(digest) <= set("0123456789abcdef"):
            # The name becomes part of a path.
            raise PayloadDamaged("a claim is not the hash of its data")
        path = self._path_of(digest)
        if bytes_max != sys.maxsize and (self._files.size(path) or 0) > bytes_max:
            raise OpenedTooLarge
        found: bytes = self._files.cat_file(path)
        if sha256(found).hexdigest() != digest:
            raise PayloadDamaged(f"the data stored as {digest} is not the data that was put there")
        return found

    def _write_durably(self, path: Path, data: bytes) -> None:
        """Write a local file so that it is complete, and survives a power cut."""
        folder = path.parent
        _make_folder(folder)
        if folder not in self._durable_folders:
            # Another process may have made the folder without syncing it yet.
            sync = sync_folder if self._durable_folders else sync_folder_and_above
            sync(folder.parent)
            self._durable_folders.add(folder)
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        sync_folder(folder)

    def _path_of(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"


def _protocols(found: str | tuple[str, ...]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else found


def _make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and its missing parents."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
