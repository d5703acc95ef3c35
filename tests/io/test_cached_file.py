"""A file of the cache on a machine that did not make it."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from sentune.io import cached_file
from sentune.io.cached_file import DAY, UNUSED_DAYS, CachedFile, CacheError, fetched, upload
from sentune.io.checksums import checksums

CONTENT = bytes(range(256)) * 9


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of an object store; this machine's home is the test's."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    cached_file._damage.cache_clear()
    uri = f"memory://{tmp_path.name}"
    yield uri
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "driver" / "tokens"
    made.mkdir(parents=True)
    (made / "shard.parquet").write_bytes(CONTENT)
    (made / "tokens.json").write_text("{}")
    return made


def moved(folder: Path, uri: str) -> CachedFile:
    """A file whose folder is another machine's."""
    upload(folder, uri)
    file = CachedFile.of(folder, "shard.parquet", checksums(folder), uri)
    folder.rename(folder.with_name("elsewhere"))
    return file


def test_the_driver_and_whoever_sees_its_folder_use_it_as_it_lies(folder: Path) -> None:
    file = CachedFile.of(folder, "shard.parquet", checksums(folder), "")
    assert file.here() == str(folder / "shard.parquet")


def test_another_machine_fetches_it_once(folder: Path, store: str) -> None:
    file = moved(folder, store)
    copy = Path(file.here())
    assert copy.is_relative_to(Path.home())
    assert copy.read_bytes() == CONTENT
    fsspec.filesystem("memory").store.clear()
    assert Path(file.here()) == copy
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT[:-1], b""])
def test_a_damaged_copy_is_fetched_again(folder: Path, store: str, content: bytes) -> None:
    file = moved(folder, store)
    copy = Path(file.here())
    copy.unlink()
    copy.write_bytes(content)
    assert Path(file.here()).read_bytes() == CONTENT


@pytest.mark.parametrize(("mode", "kept"), [(0o755, True), (0o775, False), (0o757, False)])
def test_a_copy_that_others_could_write_is_fetched_again(
    folder: Path, store: str, mode: int, kept: bool
) -> None:
    file = moved(folder, store)
    copy = Path(file.here())
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    was = copy.stat().st_ino
    with copy.open("rb"):  # its inode is not given to the new copy
        copy.parent.chmod(mode)
        assert (Path(file.here()).stat().st_ino == was) == kept
    assert copy.parent.stat().st_mode & 0o777 == 0o700


def test_a_cache_of_another_user_is_refused(
    folder: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = moved(folder, store)
    file.here()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(CacheError, match=f"fetched: it belongs to user {other - 1}.*set HOME"):
        file.here()


def test_other_content_at_its_path_is_not_taken_for_it(folder: Path, store: str) -> None:
    file = moved(folder, store)
    folder.mkdir()
    (folder / "shard.parquet").write_bytes(CONTENT[:-1] + b"x")
    assert Path(file.here()).read_bytes() == CONTENT


def test_a_store_that_holds_something_else_is_named(folder: Path, store: str) -> None:
    (folder / "shard.parquet").write_bytes(CONTENT[:-1] + b"x")
    upload(folder, store)
    (folder / "shard.parquet").write_bytes(CONTENT)
    file = CachedFile.of(folder, "shard.parquet", checksums(folder), store)
    (folder / "shard.parquet").unlink()
    with pytest.raises(CacheError, match=f"{store}/shard.parquet: checksum of .*delete it and run"):
        file.here()


def test_a_file_that_is_not_even_in_the_store_is_one_sentence(folder: Path, store: str) -> None:
    file = moved(folder, store)
    fsspec.filesystem("memory").store.clear()
    said = f"{store}/shard.parquet: there is no such file; run the same command again"
    with pytest.raises(CacheError, match=said):
        file.here()


def test_what_lies_on_the_drivers_machine_alone_is_one_sentence(folder: Path) -> None:
    file = replace(CachedFile.of(folder, "shard.parquet", checksums(folder), ""), path="/no/shard")
    with pytest.raises(CacheError) as caught:
        file.here()
    said = pickle.loads(pickle.dumps(caught.value))
    assert str(said) == str(caught.value)
    assert str(said).startswith(f"node {said.node}: /no/shard: there is no such file; give --cache")
    assert "\n" not in str(said)


def test_an_upload_puts_what_is_not_there_in_full_size(folder: Path, store: str) -> None:
    upload(folder, store)
    files = fsspec.filesystem("memory")
    root = store.removeprefix("memory:/")
    files.pipe_file(f"{root}/shard.parquet", CONTENT[:5])
    before = files.info(f"{root}/tokens.json")["created"]
    upload(folder, store)
    assert files.cat_file(f"{root}/shard.parquet") == CONTENT
    assert files.info(f"{root}/tokens.json")["created"] == before


def test_copies_that_nothing_asks_for_go_when_something_new_is_fetched(store: str) -> None:
    """Files and folders; one that is asked for now and then stays."""
    old = time.time() - UNUSED_DAYS * DAY - 60
    fetched("folder").mkdir(parents=True)
    for name in ("file", "used", "folder/file"):
        fetched(name).write_text("")
    for name in ("file", "used", "folder"):
        os.utime(fetched(name), (old, old))
    fetched("used")
    fetched("new")
    assert [path.name for path in fetched("x").parent.iterdir()] == ["used"]
