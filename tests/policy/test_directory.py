"""Reading a directory in one consistent moment."""

import os
import threading
import time

from webhook.policy.directory import contents_of, read_directory


def test_the_digest_follows_names_and_contents_only(policies) -> None:
    policies.policy("a")
    first = read_directory(policies.path).digest
    os.utime(policies.path / "a.yaml", (1, 1))
    assert first == read_directory(policies.path).digest
    policies.policy("a", "gpuLimits: {mode: warn}")
    assert first != read_directory(policies.path).digest


def test_files_that_were_read_elsewhere_are_those_that_a_directory_would_give(policies) -> None:
    policies.policy("_default")
    policies.shared_quotas("- {name: a, namespaces: [x], gpus: 1}")
    policies.write("README.md", "# Policies")
    read = read_directory(policies.path)
    assert [name for name, _ in read.files] == ["_default.yaml", "_quotas.yaml"]
    assert contents_of(policies.path, {file.name: file.read_bytes() for file in policies.path.iterdir()}) == read


def mount(directory, version, files) -> None:
    """Write files as the kubelet does: into a new directory, to which `..data` is then swapped at once."""
    data = directory / f"..{version}"
    data.mkdir()
    for file, text in files.items():
        (data / file).write_text(text)
    (directory / "..data_tmp").symlink_to(data.name)
    old = os.readlink(directory / "..data") if (directory / "..data").is_symlink() else None
    os.replace(directory / "..data_tmp", directory / "..data")
    for file in files:
        if not (directory / file).is_symlink():
            (directory / file).symlink_to(f"..data/{file}")
    for entry in list(directory.iterdir()):
        if not entry.name.startswith("..") and entry.name not in files:
            entry.unlink()
    if old is not None:
        for file in (directory / old).iterdir():
            file.unlink()
        (directory / old).rmdir()


def test_a_mounted_configmap_is_read_once_also_after_a_swap(policies) -> None:
    mount(policies.path, "v1", {"a.yaml": "1", "b.yaml": "2"})
    assert read_directory(policies.path).files == (("a.yaml", b"1"), ("b.yaml", b"2"))
    mount(policies.path, "v2", {"b.yaml": "2", "c.yaml": "3"})
    contents = read_directory(policies.path)
    assert contents.files == (("b.yaml", b"2"), ("c.yaml", b"3"))
    assert contents.faults == ()


def test_links_the_kubelet_has_not_removed_yet_are_no_fault(policies) -> None:
    mount(policies.path, "v1", {"a.yaml": "1"})
    (policies.path / "old.yaml").symlink_to("..data/old.yaml")
    contents = read_directory(policies.path)
    assert (contents.files, contents.faults) == ((("a.yaml", b"1"),), ())


def test_a_file_beside_a_mounted_configmap_is_read_too(policies) -> None:
    mount(policies.path, "v1", {"a.yaml": "1"})
    policies.write("b.yaml", "2")
    assert read_directory(policies.path).files == (("a.yaml", b"1"), ("b.yaml", b"2"))


def test_a_directory_reached_through_a_link_is_read(policies, tmp_path) -> None:
    policies.policy("a")
    link = tmp_path / "current"
    link.symlink_to("policies")
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "b.yaml").write_text("2")
    (tmp_path / "swap").symlink_to("next")
    os.replace(tmp_path / "swap", link)
    assert read_directory(link).files == (("b.yaml", b"2"),)


def test_reading_while_the_kubelet_swaps_never_mixes_two_versions(policies) -> None:
    versions = 60
    mount(policies.path, "0", {f"{name}.yaml": "0" for name in "abcd"})
    seen: set[str] = set()
    done = threading.Event()

    def swap() -> None:
        for version in range(1, versions):
            mount(policies.path, str(version), {f"{name}.yaml": str(version) for name in "abcd"})
            time.sleep(0.002)
        done.set()

    swapper = threading.Thread(target=swap)
    swapper.start()
    while not done.is_set():
        contents = read_directory(policies.path)
        assert contents.faults == ()
        assert len(contents.files) == 4
        (version,) = {source.decode() for _, source in contents.files}
        seen.add(version)
    swapper.join()
    assert len(seen) > 1
