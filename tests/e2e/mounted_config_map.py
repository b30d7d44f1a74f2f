"""A directory as the kubelet mounts a ConfigMap or Secret, changed as the kubelet changes it."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


class MountedConfigMap:
    """`directory` holds links into `..data`, a link to the directory with the files, which is swapped in one step.

    The steps and their order are those of AtomicWriter in Kubernetes (pkg/volume/util/atomic_writer.go).
    """

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        directory.mkdir()
        self.directory = directory
        self._data = directory / "..data"
        self.replace(files)

    def replace(self, files: Mapping[str, str]) -> None:
        """Mount these files, by name, instead of those of before."""
        fresh = Path(tempfile.mkdtemp(prefix="..2026_01_01_00_00_00.", dir=self.directory))
        for name, text in files.items():
            (fresh / name).write_text(text)
        before = os.readlink(self._data) if self._data.is_symlink() else None
        staged = self.directory / "..data_tmp"
        staged.symlink_to(fresh.name)
        staged.replace(self._data)
        for name in files:
            if not (self.directory / name).is_symlink():
                (self.directory / name).symlink_to(Path("..data") / name)
        for link in self.directory.iterdir():
            if not link.name.startswith("..") and link.name not in files:
                link.unlink()
        if before is not None:
            shutil.rmtree(self.directory / before)
