"""Sockets by descriptor: a planted link is never followed, a long path never too long."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.runtime import sockets


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    number = sockets.folder(tmp_path)
    yield number
    os.close(number)


def test_what_listens_is_reached_without_blocking(folder: int) -> None:
    with sockets.listen(folder, "one.sock") as listener, sockets.connect(folder, "one.sock") as connection:
        assert not connection.getblocking()
        accepted, _ = listener.accept()
        with accepted:
            connection.send(b"hello")
            assert accepted.recv(10) == b"hello"


def test_a_path_longer_than_an_address_works(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    at = sockets.folder(deep)
    with sockets.listen(at, "one.sock"), sockets.connect(at, "one.sock"):
        pass
    os.close(at)


def test_a_link_planted_as_the_socket_is_not_followed(tmp_path: Path, folder: int) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = sockets.folder(elsewhere)
    with sockets.listen(other, "victim.sock") as victim:
        (tmp_path / "one.sock").symlink_to(elsewhere / "victim.sock")
        with pytest.raises(sockets.NotASocketError):
            sockets.connect(folder, "one.sock")
        victim.settimeout(0)
        with pytest.raises(BlockingIOError):
            victim.accept()
    os.close(other)


def test_a_link_planted_as_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(sockets.NotASocketError):
        sockets.folder(tmp_path / "link")


def test_the_socket_that_was_checked_is_the_one_that_is_reached(tmp_path: Path, folder: int) -> None:
    """The name is swapped between check and connect: by then only the descriptor counts."""
    real = socket.socket.connect
    listener = sockets.listen(folder, "one.sock")

    class Swapping(socket.socket):
        def connect(self, address: object) -> None:
            (tmp_path / "one.sock").rename(tmp_path / "moved.sock")
            (tmp_path / "one.sock").symlink_to("/nowhere")
            real(self, address)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sockets.socket, "socket", Swapping)
        connection = sockets.connect(folder, "one.sock")
    accepted, _ = listener.accept()
    for one in (accepted, connection, listener):
        one.close()


@pytest.mark.parametrize("make", ["file", "folder", "fifo"])
def test_only_a_socket_is_connected_to(tmp_path: Path, folder: int, make: str) -> None:
    path = tmp_path / "one.sock"
    {"file": path.touch, "folder": path.mkdir, "fifo": lambda: os.mkfifo(path)}[make]()
    with pytest.raises(sockets.NotASocketError):
        sockets.connect(folder, "one.sock")


def test_absence_and_silence_are_told_apart(tmp_path: Path, folder: int) -> None:
    with pytest.raises(FileNotFoundError):
        sockets.connect(folder, "one.sock")
    sockets.listen(folder, "one.sock").close()
    with pytest.raises(ConnectionRefusedError):
        sockets.connect(folder, "one.sock")
    with pytest.raises(OSError, match="in use"):
        sockets.listen(folder, "one.sock")


@pytest.mark.parametrize("name", ["../one.sock", "a/b", "", ".", ".."])
def test_a_name_is_one_part_of_a_path(folder: int, name: str) -> None:
    with pytest.raises(ValueError, match="one part"):
        sockets.connect(folder, name)
