"""Principals, secrets, and the proof of a secret: texts, verifiers, challenges."""

from pathlib import Path
from random import Random

import pytest

from upheaval_node.credentials import (
    COUNT,
    MAX_COUNT,
    MIN_COUNT,
    NONCE_LENGTH,
    SALT_LENGTH,
    Challenge,
    Credentials,
    NoCredentials,
    SecretCredentials,
    Verifier,
    client_key,
    make_verifier,
    parse_credentials,
)
from upheaval_node.errors import UsageError
from upheaval_node.runtime.credentials_file import credentials_supplier, read_source

SALT = bytes(range(SALT_LENGTH))


def verifier(secret: str = "open sesame", *roles: str) -> Verifier:
    return make_verifier(secret, SALT, frozenset(roles), MIN_COUNT)


def challenge_of(credentials: Credentials, principal: bytes, nonce: int = 1) -> Challenge:
    made = credentials.verifier(principal)
    return Challenge(Random(nonce).randbytes(NONCE_LENGTH), made.salt, made.count)


def test_the_proof_of_the_secret_is_accepted_and_shows_neither_the_secret_nor_the_key() -> None:
    credentials = Credentials(f"# people\n\nalice:{verifier()}\n", "book")
    alice = SecretCredentials("alice", "open sesame")
    challenge = challenge_of(credentials, b"alice")
    answer = alice.on_challenge(challenge.encode())
    assert alice.encoded_credentials() == b"alice"
    assert credentials.verifier(b"alice").accepts(answer, b"alice", challenge)
    assert client_key("open sesame", SALT, MIN_COUNT) not in (answer, credentials.verifier(b"alice").stored_key)


def test_a_proof_is_worth_nothing_for_another_challenge_or_another_principal() -> None:
    credentials = Credentials(f"alice:{verifier()}\nbob:{verifier()}\n", "book")
    first, second = challenge_of(credentials, b"alice", 1), challenge_of(credentials, b"alice", 2)
    answer = SecretCredentials("alice", "open sesame").on_challenge(first.encode())
    alice = credentials.verifier(b"alice")
    assert alice.accepts(answer, b"alice", first)
    assert not alice.accepts(answer, b"alice", second)
    assert not alice.accepts(answer, b"bob", first)


@pytest.mark.parametrize("answer", [b"", b"\0" * 32, b"x" * 31, b"x" * 5000])
def test_whatever_else_is_answered_is_refused(answer: bytes) -> None:
    credentials = Credentials(f"alice:{verifier()}\n", "book")
    challenge = challenge_of(credentials, b"alice")
    right = SecretCredentials("alice", "open sesame").on_challenge(challenge.encode())
    alice = credentials.verifier(b"alice")
    refused = [alice.accepts(wrong, b"alice", challenge) for wrong in (answer, right + b"\0", right[:-1])]
    wrong_secret = SecretCredentials("alice", "guess").on_challenge(challenge.encode())
    assert [*refused, alice.accepts(wrong_secret, b"alice", challenge)] == [False] * 4


def test_an_unknown_principal_is_challenged_like_a_known_one_and_always_the_same_way() -> None:
    text = f"alice:{make_verifier('secret', SALT)}\n"
    one, other = Credentials(text, "book"), Credentials(text, "copy of another member")
    assert one.verifier(b"mallory") == other.verifier(b"mallory")
    assert one.verifier(b"mallory") != one.verifier(b"eve")
    assert (one.verifier(b"mallory").count, b"mallory" in one) == (COUNT, False)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"password?",
        b"scram-sha-256 a b 4096",
        Challenge(b"n" * NONCE_LENGTH, SALT, MIN_COUNT - 1).encode(),
        Challenge(b"n" * NONCE_LENGTH, SALT, MAX_COUNT + 1).encode(),
        Challenge(b"n" * NONCE_LENGTH, SALT[1:], MIN_COUNT).encode(),
        Challenge(b"n" * NONCE_LENGTH, SALT, MIN_COUNT).encode() + b" " * 600,
        b"\xff" * 100,
    ],
)
def test_a_client_answers_no_challenge_that_costs_too_much_or_protects_too_little(challenge: bytes) -> None:
    assert SecretCredentials("alice", "secret").on_challenge(challenge) == b""


def test_roles_stand_after_the_verifier() -> None:
    credentials = Credentials(f"alice:{verifier('s', 'backup', 'admin')}\nbob:{verifier('t')}\n", "book")
    assert [credentials.has_role(name, "admin") for name in (b"alice", b"bob", b"mallory")] == [True, False, False]
    assert credentials.principals == [b"alice", b"bob"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("alice", "book line 1 is not of the form principal:verifier"),
        ("\nalice:secret", "book line 2 holds no verifier"),
        (f"alice:{verifier()}\nalice:{verifier()}", "book line 2 names 'alice' for a second time"),
        (":x", "book line 1: a principal has 1 to 256 printable bytes"),
        ("a" * 257 + ":x", "a principal has 1 to 256"),
        (" alice:x", "no blanks around it"),
        ("alice:$scram-sha-256$1$AAAA$AAAA", "the count must be 4096 to 1000000"),
        ("alice:$scram-sha-256$4096$AAAA$AAAA", "salt or key is not base64 of 16 and 32 bytes"),
        ("alice:$scram-sha-256$4096$!$?", "salt or key is not base64"),
        ("alice:$sha1$4096$AAAA$AAAA", "holds no verifier"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_no_secret_is_shown(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        Credentials(text, "book")
    assert "secret" not in str(caught.value)


def test_credentials_come_from_a_file_or_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "me"
    file.write_text("# mine\nalice:open:sesame\n", encoding="utf-8")
    monkeypatch.setenv("WHO", "bob:secret")
    suppliers = [credentials_supplier(str(file)), credentials_supplier("env:WHO"), credentials_supplier("")]
    assert [each.encoded_credentials() for each in suppliers] == [b"alice", b"bob", b""]
    credentials = Credentials(f"alice:{verifier('open:sesame')}", "book")
    challenge = challenge_of(credentials, b"alice")
    assert credentials.verifier(b"alice").accepts(suppliers[0].on_challenge(challenge.encode()), b"alice", challenge)
    assert NoCredentials().on_challenge(challenge.encode()) == b""


def test_credentials_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for source, complaint in [
        (str(tmp_path / "none"), "cannot read credentials in .*none: No such file"),
        ("env:NOBODY_SETS_THIS", "expected credentials in the environment variable 'NOBODY_SETS_THIS'"),
        (str(binary), "are not UTF-8 text"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            read_source(source)
    for text, complaint in [
        ("", "me holds 0 lines"),
        ("a:b\nc:d", "me holds 2 lines"),
        ("alice", "me line 1 is not of the form principal:secret"),
        ("alice:", "the secret of 'alice' is empty"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            parse_credentials(text, "me")
