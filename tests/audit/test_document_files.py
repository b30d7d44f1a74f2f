"""Files and directories of manifests: what is read, what is passed over, and what is an error with its place."""

import io
import os
from pathlib import Path

import pytest

from tests.audit.test_documents import EXPECTED, POD, read, read_paths, seen
from tests.golden import each
from webhook.audit.documents import Document, DocumentError, read_all


def test_a_directory_is_read_recursively_by_name_without_what_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for file, text in {
        "b.yaml": POD % "b",
        "a.yml": POD % "a",
        "sub/c.json": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}',
        "notes.txt": "no manifest",
        "values.yaml": "replicas: 3",
        ".hidden.yaml": POD % "hidden",
        ".git/d.yaml": POD % "git",
    }.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "dir.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "sub" / "again").symlink_to(tmp_path)
    assert seen(read_paths(tmp_path)) == ["1@1 a", "1@1 b", "1@1 c"]


def test_a_link_that_leads_nowhere_or_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("nowhere")
    (tmp_path / "b.yaml").symlink_to("b.yaml")
    (tmp_path / "c.yaml").write_text(POD % "c")
    assert seen(read_paths(tmp_path)) == [
        f"0 {tmp_path}/a.yaml: cannot be read: No such file or directory; name a file that you can read",
        f"0 {tmp_path}/b.yaml: cannot be read: Too many levels of symbolic links; name a file that you can read",
        "1@1 c",
    ]


def test_a_directory_that_cannot_be_read_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    """One with a path that is too long, since root may read all others."""
    (tmp_path / "a.yaml").write_text(POD % "a")
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=place)
        place, above = os.open("d" * 250, os.O_RDONLY, dir_fd=place), place
        os.close(above)
    os.close(place)
    first, error = seen(read_paths(tmp_path))
    assert (first, error.rpartition(": ")[2]) == ("1@1 a", "File name too long; name a file that you can read")


def test_half_an_object_in_a_directory_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("apiversion: v1\nkind: Pod\n")
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: chart\n")
    assert seen(read_paths(tmp_path)) == [f"1 {tmp_path}/pod.yaml:1: {EXPECTED.replace('not a', 'an incomplete', 1)}"]


def test_a_broken_file_in_a_directory_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / "d.yaml").write_text(POD % "d")
    found = read_paths(tmp_path)
    assert [(Path(each.source).name, each.line) for each in found] == [("a.yaml", 1), ("b.yaml", 2), ("d.yaml", 1)]
    assert [type(each) for each in found] == [DocumentError] * 2 + [Document]


def test_a_file_with_nothing_but_comments_in_a_directory_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# kind: Pod\n---\n")
    assert [str(each) for each in read_paths(tmp_path)] == [f"{tmp_path}: no Kubernetes object in this directory"]
    (tmp_path / "b.yaml").write_text(POD % "b")
    assert seen(read_paths(tmp_path)) == ["1@1 b"]


@pytest.mark.parametrize("broken", ["spec: {{ .Values.spec }}\n", "spec: [\n", "kind: Pod\n", "a: *b\n"])
def test_a_broken_document_spoils_no_other_of_its_file(broken: str) -> None:
    found = read(f"{POD % 'a'}---\n{POD % 'b'}{broken}---\n{POD % 'c'}")
    assert [(each.number, type(each)) for each in found] == [(1, Document), (2, DocumentError), (3, Document)]
    assert found[1].line in (8, 9)


def test_a_directory_without_manifests_is_an_error(tmp_path: Path) -> None:
    assert seen(read_paths(tmp_path)) == [f"0 {tmp_path}: no .yaml, .yml or .json file in this directory"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(POD % "a")
    (tmp_path / "a").chmod(0)
    assert seen(read_paths(tmp_path / "a")) == [
        f"0 {tmp_path}/a: cannot be read: Permission denied; name a file that you can read"
    ]


@each(
    "content, line, message",
    {
        "executable": (b"\x7fELF\x02\x01\x01\x00", 1, "U+007F is not allowed"),
        "Latin-1": (b"a: 1\nb: \xe9\n", 2, "not UTF-8 at byte 8; save the file in UTF-8"),
        "UTF-16": ((POD % "a").encode("utf-16"), 1, "not UTF-8 at byte 0"),
        "gzip": (b"\x1f\x8b\x08\x00", 1, "not UTF-8 at byte 1"),
    },
)
def test_a_binary_file_is_an_error_with_its_line(tmp_path: Path, content: bytes, line: int, message: str) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    (error,) = read_paths(tmp_path / "a.yaml")
    assert isinstance(error, DocumentError)
    assert (error.source, error.line) == (str(tmp_path / "a.yaml"), line)
    assert message in error.message


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("apiVersion: v1\nkind: Deployment", "apiVersion: found 'v1', but a Deployment's is 'apps/v1'"),
        ("apiVersion: extensions/v1beta1\nkind: Deployment", "apiVersion: found 'extensions/v1beta1', but a"),
        ("apiVersion: V1\nkind: Pod", "apiVersion: found 'V1', but a Pod's is 'v1'"),
        ("apiVersion: v1\nkind: pod", "kind: found 'pod', but it is spelled 'Pod'"),
        ("apiVersion: v1\nmetadata: {}", "an incomplete Kubernetes object"),
        ("apiVersion: v1\nkind: podd", "kind: found 'podd', but v1 has no such kind; did you mean Pod?"),
        ("apiVersion: apps/v1\nkind: Deplyoment", "kind: found 'Deplyoment', but apps/v1 has no such kind; did"),
        ("apiVersion: batch/v1\nkind: Task", "kind: found 'Task', but batch/v1 has no such kind; its kinds"),
    ],
    ids=[
        *("core group", "group of the past", "capital letter", "small letter", "no kind", "a letter too much"),
        *("two letters swapped", "another word"),
    ],
)
def test_a_workload_that_is_none_as_it_is_written_is_an_error(tmp_path: Path, head: str, message: str) -> None:
    """Whether it is named or found in a directory: what would be allowed unseen is said."""
    (tmp_path / "a.yaml").write_text(f"{head}\nspec: {{}}\n")
    for path in (tmp_path, tmp_path / "a.yaml"):
        (error,) = read_all([str(path)], io.BytesIO())
        assert isinstance(error, DocumentError)
        assert error.message.startswith(message)


@pytest.mark.parametrize(
    "head", ["v1\nkind: Config", "v1\nkind: Template", "apps/v1\nkind: ControllerRevision", "batch/v1\nkind: JobList"]
)
def test_another_object_is_none(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.yaml").write_text(f"apiVersion: {head}\n")
    assert not isinstance(*read_paths(tmp_path / "a.yaml"), DocumentError)


PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  template:
    spec:
      containers: [{name: server, resources: {requests: {nvidia.com/gpu: 1}}}]
"""


def test_a_patch_of_kustomize_is_no_object_and_is_passed_over_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "patch.yaml").write_text(PATCH)
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    (error,) = read_all([str(tmp_path / "patch.yaml")], io.BytesIO())
    assert isinstance(error, DocumentError)
    assert error.message == (
        "a patch, not a whole Kubernetes object: it has no selector, and a container has no image; run kustomize "
        "build first"
    )
    assert [one.object["kind"] for one in read_all([str(tmp_path)], io.BytesIO())] == ["Pod"]


@each(
    "old, new",
    {
        "with a selector": ("spec:\n  template", "spec:\n  selector: {}\n  template"),
        "with an image": ("{name: server, resources", "{name: server, image: a, resources"),
        "of another group": ("apps/v1", "example.com/v1"),
    },
)
def test_what_lacks_less_is_no_patch(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "a.yaml").write_text(PATCH.replace(old, new))
    (found,) = read_all([str(tmp_path / "a.yaml")], io.BytesIO())
    assert isinstance(found, Document)
