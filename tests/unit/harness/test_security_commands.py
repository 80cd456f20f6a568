"""`upheaval certificates` and `upheaval credentials`, and what commands say to bad ones: one line, nothing lost."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tls_world import certificates, own_copy
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.security import (
    copy_for_container,
    create_certificates,
    files_of,
    require_certificates,
    run_openssl,
)
from upheaval_node.credentials import Credentials, parse_credentials
from upheaval_node.runtime.tls import TlsIdentity


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status of a command and what it printed."""
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with status 2."""
    status, text = said(capsys, *arguments)
    assert status == 2
    assert text.startswith("upheaval: ")
    assert text.count("\n") == 1
    return text


def test_certificates_are_made_for_everybody_and_keys_are_their_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "certificates"
    status, text = said(capsys, "certificates", "create", "--dir", str(folder), "--members", "2", "--days", "9")
    assert (status, text) == (0, f"{folder}: member-0, member-1, backup-0, standby-0, client, good for 9 days\n")
    require_certificates(folder, ["member-0", "member-1", "backup-0", "standby-0", "client"])
    assert {path.suffix: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {".key": 0o600, ".pem": 0o644}
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


def test_renewed_certificates_are_others_of_the_same_authority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = own_copy(tmp_path / "certificates")
    before = {path.name: path.read_bytes() for path in folder.glob("*.pem")}
    assert said(capsys, "certificates", "create", "--dir", str(folder), "--renew", "--days", "9")[0] == 0
    changed = {name for name, content in before.items() if (folder / name).read_bytes() != content}
    assert changed == {
        f"{name}.pem" for name in ("member-0", "member-1", "member-2", "backup-0", "standby-0", "client")
    }
    require_certificates(folder, ["member-0", "client"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--members", "0"], "--members 0: a cluster has 1 to 9 members"),
        (["--days", "0"], "certificates are good for 1 to 36500 days, not 0"),
        (["--days", "99999999"], "certificates are good for 1 to 36500 days"),
        (["--renew"], "holds no authority.key to make certificates with"),
    ],
)
def test_wrong_wishes_for_certificates_make_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    assert complaint in refused(capsys, "certificates", "create", "--dir", str(tmp_path / "c"), *arguments)
    assert not (tmp_path / "c").exists()


def test_an_authority_that_is_there_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = own_copy(tmp_path / "certificates")
    before = (folder / "authority.key").read_bytes()
    assert "holds a certificate authority already" in refused(capsys, "certificates", "create", "--dir", str(folder))
    assert (folder / "authority.key").read_bytes() == before


@pytest.mark.parametrize("name", ["authority.pem", "member-0.key", "client.pem"])
def test_keys_and_certificates_of_somebody_else_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("precious", encoding="utf-8")
    assert " already" in refused(capsys, "certificates", "create", "--dir", str(tmp_path))
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {name: "precious"}


def test_copies_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder, credentials = own_copy(tmp_path / "certificates"), tmp_path / "book"
    credentials.write_text("", encoding="utf-8")
    for path in (*folder.iterdir(), credentials):
        if path.is_file():
            path.chmod(0o644)
    target = tmp_path / "member"
    (target / "tls").mkdir(parents=True)
    (target / "credentials").write_text("old", encoding="utf-8")
    copy_for_container(str(folder), "member-0", str(credentials), target)
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()} == {0o600}
    assert (target / "tls" / "key.pem").read_bytes() == (folder / "member-0.key").read_bytes()
    assert (target / "credentials").read_bytes() == b""


def test_a_credentials_file_keeps_the_mode_that_its_owner_gave_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    credentials = tmp_path / "book"
    for name, mode in (("alice", 0o600), ("bob", 0o600), ("carol", 0o640)):
        if name == "carol":
            credentials.chmod(mode)
        assert (
            said(capsys, "credentials", "add", name, "--file", str(credentials), "--out", str(tmp_path / name))[0] == 0
        )
        assert credentials.stat().st_mode & 0o777 == mode
    same = tmp_path / "same"
    text = refused(capsys, "credentials", "add", "dave", "--file", str(same), "--out", str(same))
    assert "cannot hold both the credentials and a secret" in text
    assert not same.exists()


def test_a_place_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    text = refused(capsys, "certificates", "create", "--dir", str(tmp_path / "file" / "c"))
    assert "cannot make certificates in" in text


def test_a_machine_without_openssl_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="certificates are made by the openssl program, which is not installed"):
        run_openssl(["version"], tmp_path)


def test_a_bad_name_is_no_name_for_a_certificate(tmp_path: Path) -> None:
    for name in ("", "../x", "authority", "a b", "DNS:x", "a\nb"):
        with pytest.raises(UsageError, match="is not a name for a certificate"):
            create_certificates(certificates(), [name])


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda folder: (folder / "member-1.pem").unlink(), r"cannot read .*member-1\.pem"),
        (lambda folder: (folder / "client.key").write_text("no key"), r"cannot use .*client\.pem for TLS"),
        (lambda folder: (folder / "member-2.pem").write_bytes((folder / "member-7.pem").read_bytes()), "member-2"),
    ],
    ids=["missing", "broken", "with another key"],
)
def test_a_cluster_does_not_start_with_certificates_that_are_no_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[Path], object], complaint: str
) -> None:
    folder = own_copy(tmp_path / "certificates")
    damage(folder)
    text = refused(capsys, "up", "--dir", str(tmp_path / "run"), "--tls", str(folder))
    assert re.search(complaint, text), text
    assert not (tmp_path / "run").exists()


def test_a_cluster_without_security_has_nothing_to_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "holds no cluster" in refused(capsys, "certificates", "reload", "--dir", str(tmp_path))


def test_somebody_is_let_in_by_a_line_and_a_file_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    credentials, out = tmp_path / "book", tmp_path / "alice"
    credentials.write_text("# people", encoding="utf-8")
    status, text = said(
        capsys, "credentials", "add", "alice", "--file", str(credentials), "--out", str(out), "--role", "admin"
    )
    assert (status, text) == (0, f"alice is in {credentials}; its secret is in {out}\n")
    assert out.stat().st_mode & 0o777 == 0o600
    written = credentials.read_text(encoding="utf-8")
    assert written.startswith("# people\nalice:$scram-sha-256$")
    secret = out.read_text(encoding="utf-8").strip().partition(":")[2]
    assert len(secret) >= 32
    assert secret not in written
    assert secret not in text
    assert Credentials(written, "book").has_role(b"alice", "admin")
    assert parse_credentials(out.read_text(encoding="utf-8"), "out").principal == "alice"


def test_wrong_principals_and_files_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    credentials, out = tmp_path / "book", tmp_path / "alice"
    add = ("credentials", "add", "--file", str(credentials))
    assert said(capsys, *add, "--out", str(out), "alice")[0] == 0
    before = (credentials.read_bytes(), out.read_bytes())
    assert "already has a user 'alice'" in refused(capsys, *add, "--out", str(tmp_path / "other"), "alice")
    assert "exists: give another --out" in refused(capsys, *add, "--out", str(out), "bob")
    assert "no colon" in refused(capsys, *add, "--out", str(tmp_path / "other"), "a:b")
    assert (credentials.read_bytes(), out.read_bytes()) == before
    broken = tmp_path / "broken"
    broken.write_text("alice:secret\n", encoding="utf-8")
    text = refused(capsys, "credentials", "add", "--file", str(broken), "--out", str(tmp_path / "other"), "bob")
    assert "broken line 1 holds no verifier" in text
    assert not (tmp_path / "other").exists()
    assert "broken line 1" in refused(capsys, "up", "--dir", str(tmp_path / "run"), "--credentials", str(broken))
    assert not (tmp_path / "run").exists()


def test_certificates_say_who_made_them() -> None:
    folder = certificates()
    ours = {TlsIdentity(files_of(folder, name)).authority for name in ("member-0", "client")}
    theirs = TlsIdentity(files_of(folder / "foreign", "client")).authority
    assert len(ours) == 1
    assert theirs not in ours
