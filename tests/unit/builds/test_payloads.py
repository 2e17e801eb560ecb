"""Do payloads parse in both spellings, keep what matters, and refuse the rest?"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from buildqueue.builds import payloads
from buildqueue.states import BUILD_KINDS

BUILD = "11111111-1111-4111-8111-111111111111"
AGENT = "22222222-2222-4222-8222-222222222222"
OWNER = "33333333-3333-4333-8333-333333333333"

# nasiko's own JSON, as its rows hold it; fields that came later are missing.
NASIKO: dict[str, dict[str, Any]] = {
    "Upload": {
        "kind": "Upload",
        "build_id": BUILD,
        "agent_id": AGENT,
        "owner_id": OWNER,
        "upload_id": BUILD,
        "name": "weather",
        "zip_path": "/tmp/nasiko-upload-1/upload.zip",
        "image_tag": "nasiko/weather:1.2.0",
        "ports": [8000],
        "env": {"A": "b"},
        "writable": True,
    },
    "Update": {
        "kind": "Update",
        "build_id": BUILD,
        "agent_id": AGENT,
        "owner_id": OWNER,
        "agent_owner_id": OWNER,
        "name": "weather",
        "zip_path": None,
        "image_tag": "nasiko/weather:1.3.0",
        "new_version": "1.3.0",
        "prev_version": "1.2.0",
    },
    "Rollback": {
        "kind": "Rollback",
        "rollback_build_id": BUILD,
        "agent_id": AGENT,
        "caller_id": OWNER,
        "agent_owner_id": OWNER,
        "agent_name": "weather",
        "target_version": "1.2.0",
        "target_image_tag": "nasiko/weather:1.2.0",
        "reason": "too slow",
        "writable": False,
    },
    "Clone": {
        "kind": "Clone",
        "build_id": BUILD,
        "agent_id": AGENT,
        "owner_id": OWNER,
        "upload_id": BUILD,
        "name": "weather",
        "tar_gz_path": "/tmp/source.tar.gz",
        "image_tag": "nasiko/weather:latest",
        "ports": [8000],
        "env": {},
    },
    "GithubClone": {
        "kind": "GithubClone",
        "build_id": BUILD,
        "agent_id": AGENT,
        "owner_id": OWNER,
        "upload_id": BUILD,
        "name": "weather",
        "repo_full_name": "acme/weather",
        "branch": "main",
        "image_tag": "nasiko/weather:latest",
        "ports": [8000],
        "env": {},
    },
    "StandaloneBuild": {
        "kind": "StandaloneBuild",
        "build_id": BUILD,
        "agent_id": AGENT,
        "agent_name": "weather",
        "source_key": "blobs/sources/x/1.zip",
        "version_tag": "v1",
    },
    "McpServerUpload": {
        "kind": "McpServerUpload",
        "build_id": BUILD,
        "connector_id": AGENT,
        "owner_id": OWNER,
        "name": "weather",
        "source": {"Zip": {"zip_path": "/tmp/upload.zip"}},
        "image_tag": "nasiko/mcp-weather:v1",
        "env": {"TOKEN": "ciphertext"},
    },
}
OURS: dict[str, Any] = {
    "kind": "upload",
    "version": 1,
    "build_id": BUILD,
    "agent_id": AGENT,
    "owner_id": "7",
    "agent_owner_id": "8",
    "name": "weather",
    "agent_version": "1.0.0",
    "source": {"key": "sources/x.zip", "sha256": "0" * 64, "size": 10},
    "ports": [8000],
    "writable": False,
}


def test_there_is_a_row_of_nasikos_for_every_kind() -> None:
    assert sorted(NASIKO) == sorted(BUILD_KINDS.values())


@pytest.mark.parametrize("tag", sorted(NASIKO))
def test_nasikos_rows_parse_and_round_trip(tag: str) -> None:
    parsed = payloads.parse(NASIKO[tag])

    assert (parsed.build_id, parsed.label) == (UUID(BUILD), "weather")
    assert parsed.kind == tag
    again = payloads.parse(json.loads(json.dumps(payloads.dump(parsed))))
    assert again == parsed
    assert again.build_id == parsed.build_id


@pytest.mark.parametrize("tag", sorted(NASIKO))
def test_our_spelling_of_the_kind_is_the_same_model(tag: str) -> None:
    ours = {name: alias for alias, name in BUILD_KINDS.items()}
    parsed = payloads.parse(NASIKO[tag] | {"kind": ours[tag]})

    assert type(parsed) is type(payloads.parse(NASIKO[tag]))


def test_nasikos_upload_becomes_ours() -> None:
    parsed = payloads.parse(NASIKO["Upload"])

    assert isinstance(parsed, payloads.Upload)
    assert parsed.agent_version == "1.2.0"
    assert parsed.agent_owner_id == OWNER
    assert parsed.source == payloads.SourceFile(
        zip_path="/tmp/nasiko-upload-1/upload.zip"
    )
    assert parsed.spec == payloads.Spec(ports=(8000,), writable=True)
    assert parsed.env == {"A": "b"}


@pytest.mark.parametrize(
    ("tag", "source"),
    [
        ("Clone", payloads.SourceFile(zip_path="/tmp/source.tar.gz")),
        (
            "GithubClone",
            payloads.GitSource(url="https://github.com/acme/weather.git", ref="main"),
        ),
        ("StandaloneBuild", payloads.SourceKey(key="blobs/sources/x/1.zip")),
        ("McpServerUpload", payloads.SourceFile(zip_path="/tmp/upload.zip")),
        ("Update", None),
    ],
)
def test_each_of_nasikos_sources_becomes_one_of_ours(tag: str, source: Any) -> None:
    parsed = payloads.parse(NASIKO[tag])

    assert getattr(parsed, "source", "has none") == source


def test_a_github_source_of_a_connector_parses() -> None:
    source = {"Github": {"url": "https://example.org/a/b"}}
    parsed = payloads.parse(NASIKO["McpServerUpload"] | {"source": source})

    assert isinstance(parsed, payloads.McpServerUpload)
    assert parsed.source == payloads.GitSource(url="https://example.org/a/b")


def test_a_nested_source_of_two_kinds_is_refused() -> None:
    both = {"Zip": {"zip_path": "/x"}, "Github": {"url": "https://example.org/a"}}

    with pytest.raises(ValidationError):
        payloads.parse(NASIKO["McpServerUpload"] | {"source": both})


def test_a_clone_keeps_what_the_agent_was_before() -> None:
    prior = {
        "version_override": "2.0.0",
        "prior_version": "1.0.0",
        "prior_image": "nasiko/weather:1.0.0",
        "prior_status": "running",
    }
    parsed = payloads.parse(NASIKO["GithubClone"] | prior)

    assert {name: getattr(parsed, name) for name in prior} == prior


def test_that_it_shall_not_be_writable_is_a_wish_too() -> None:
    parsed = payloads.parse(NASIKO["Upload"] | {"writable": False})

    assert isinstance(parsed, payloads.Upload)
    assert parsed.spec.writable is False


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 0},
        {"replicas": 17},
        {"memory_mb": 1},
        {"cpus": 0},
        {"ports": [8000] * 17},
        {"ports": [0]},
        {"writable_path": "data"},
        {"writable_path": "/"},
        {"writable_path": "/a/../b"},
        {"writable_path": "/a:b"},
        {"writable_path": "/a\nb"},
        {"surprise": 1},
    ],
)
def test_a_spec_that_cannot_be_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        payloads.Spec.model_validate(spec)


def test_what_says_nothing_is_not_stored() -> None:
    stored = payloads.dump(payloads.parse(OURS))

    assert "env" not in stored
    assert payloads.parse(stored) == payloads.parse(OURS)


def test_our_upload_round_trips_and_cannot_be_changed() -> None:
    parsed = payloads.parse(OURS)

    assert isinstance(parsed, payloads.Upload)
    assert isinstance(parsed.source, payloads.StoredSource)
    with pytest.raises(ValidationError):
        parsed.name = "other"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "unknown"},
        {"kind": None},
        {"build_id": "not a uuid"},
        {"surprise": 1},
        {"version": 2},
        {"spec": {"ports": [0]}},
        {"spec": {"ports": [70000]}},
        {"spec": {}, "ports": [8000]},
        {"source": {"key": "x", "sha256": "short", "size": 1}},
        {"source": None},
        {"owner_id": "x" * 101},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        payloads.parse(OURS | change)


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ({"build_id": BUILD, "else": 1}, UUID(BUILD)),
        ({"rollback_build_id": BUILD}, UUID(BUILD)),
        ({"build_id": "no uuid"}, None),
        ({"build_id": "no uuid", "rollback_build_id": BUILD}, UUID(BUILD)),
        ({}, None),
        ([BUILD], None),
        ("text", None),
        (None, None),
    ],
)
def test_a_build_is_found_in_what_does_not_parse(
    payload: object, found: UUID | None
) -> None:
    assert payloads.build_id_of(payload) == found
