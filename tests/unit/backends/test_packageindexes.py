"""Does a confined pip get the settings it needs, and none besides?"""

from __future__ import annotations

from pathlib import Path

from buildqueue.backends.packageindexes import index_environment, index_paths


def test_only_named_variables_pass() -> None:
    host = {
        "PIP_INDEX_URL": "https://index.example/simple",
        "https_proxy": "http://proxy.example",
        "SSL_CERT_FILE": "/etc/ssl/cert.pem",
        "DATABASE_URL": "postgres://secret",
        "PIP_TARGET": "/",
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "/evil.so",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }

    passed = index_environment(host)

    assert sorted(passed) == ["PIP_INDEX_URL", "SSL_CERT_FILE", "https_proxy"]


def test_local_folders_of_settings_become_readable(tmp_path: Path) -> None:
    wheels, simple = tmp_path / "wheels", tmp_path / "my simple"
    wheels.mkdir()
    simple.mkdir()
    config = tmp_path / "pip.conf"
    config.write_text(
        f"[global]\nextra-index-url = {simple.as_uri()} https://x/simple\n"
    )

    found = index_paths(
        {"PIP_FIND_LINKS": f"{wheels} /absent", "PIP_CONFIG_FILE": str(config)}
    )

    assert {wheels, simple, config} <= set(found)
    assert Path("/absent") not in found


def test_the_root_and_devices_are_never_readable() -> None:
    found = index_paths(
        {"PIP_FIND_LINKS": "/ file:///", "PIP_CONFIG_FILE": "/dev/null"}
    )

    assert not {Path("/"), Path("/dev/null")} & set(found)


def test_broken_settings_are_left_to_pip(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("no section\n")

    assert config in index_paths({"PIP_CONFIG_FILE": str(config)})
