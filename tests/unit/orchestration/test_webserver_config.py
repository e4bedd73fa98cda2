"""How people log in to the team's Airflow: the settings of a provider of OpenID Connect, and who is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from builders import ROOT
from flask_appbuilder.const import AUTH_DB, AUTH_OAUTH
from werkzeug.security import generate_password_hash

FILE = ROOT / "deploy" / "airflow" / "webserver_config.py"
COMPLETE = {
    "OIDC_ISSUER": "https://login.example.com/",
    "OIDC_CLIENT_ID": "brokerproof",
    "OIDC_CLIENT_SECRET": "of the client",
    "OIDC_VIEWER_GROUPS": "everybody",
    "OIDC_OPERATOR_GROUPS": "messaging, night shift",
    "OIDC_ADMIN_GROUPS": "platform,messaging",
}


def load() -> ModuleType:
    """The file, as FAB executes it."""
    spec = importlib.util.spec_from_file_location("webserver_config", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_without_a_provider_users_are_in_the_database_and_none_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load()
    assert (config.AUTH_TYPE, config.AUTH_USER_REGISTRATION) == (AUTH_DB, False)
    assert not hasattr(config, "AUTH_ROLE_PUBLIC")


@pytest.mark.parametrize(("url", "secure"), [("http://127.0.0.1:8080", False), ("https://airflow.example.com", True)])
def test_the_cookie_of_the_session_is_for_https_if_people_use_it(
    monkeypatch: pytest.MonkeyPatch, url: str, secure: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", url)
    assert load().SESSION_COOKIE_SECURE is secure


def test_groups_of_a_provider_have_roles_and_a_user_without_a_group_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "secret").write_text("in a file\n")
    monkeypatch.delenv("OIDC_CLIENT_SECRET")
    monkeypatch.setenv("OIDC_CLIENT_SECRET_FILE", str(tmp_path / "secret"))
    config = load()
    assert config.AUTH_TYPE == AUTH_OAUTH
    assert config.AUTH_ROLES_MAPPING == {
        "everybody": ["Viewer"],
        "messaging": ["User", "Admin"],
        "night shift": ["User"],
        "platform": ["Admin"],
    }
    assert (config.AUTH_USER_REGISTRATION_ROLE, config.AUTH_ROLES_SYNC_AT_LOGIN) == ("Public", True)
    (provider,) = config.OAUTH_PROVIDERS
    assert provider["remote_app"]["client_secret"] == "in a file"
    assert provider["remote_app"]["server_metadata_url"] == (
        "https://login.example.com/.well-known/openid-configuration"
    )


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        (["OIDC_CLIENT_ID"], "OIDC_CLIENT_ID is missing; set it beside OIDC_ISSUER"),
        (["OIDC_CLIENT_SECRET"], "OIDC_CLIENT_SECRET is missing; set it beside OIDC_ISSUER"),
        ([name for name in COMPLETE if "GROUPS" in name], "No group of the provider has a role"),
    ],
)
def test_a_provider_that_is_not_completely_named_is_refused(
    monkeypatch: pytest.MonkeyPatch, missing: list[str], sentence: str
) -> None:
    for name in COMPLETE.keys() - set(missing):
        monkeypatch.setenv(name, COMPLETE[name])
    with pytest.raises(SystemExit, match=sentence):
        load()


def make_manager(config: ModuleType, **known: Any) -> Any:
    """A security manager without a database, in which the users `known` are, each with the password's hash."""
    manager = object.__new__(config.SecurityManager)
    users = {name: SimpleNamespace(username=name, password=value) for name, value in known.items()}
    manager.find_user = lambda username: users.get(username)
    return manager


def test_a_user_of_a_provider_has_the_name_and_the_groups_of_the_signed_token(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = {"preferred_username": "alice", "email": "alice@example.com", "groups": ["messaging"], "upn": "al"}
    manager = make_manager(load())
    user = manager.get_oauth_user_info("oidc", {"userinfo": claims})
    assert (user["username"], user["email"], user["role_keys"]) == ("alice", "alice@example.com", ["messaging"])
    monkeypatch.setenv("OIDC_USERNAME_CLAIM", "upn")
    monkeypatch.setenv("OIDC_GROUPS_CLAIM", "role")
    again = manager.get_oauth_user_info("oidc", {"userinfo": claims | {"role": "night"}})
    assert (again["username"], again["role_keys"]) == ("al", ["night"])


def test_a_user_of_a_provider_cannot_take_the_name_of_a_user_with_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load()
    parent = config.SecurityManager.__mro__[1]
    monkeypatch.setattr(parent, "auth_user_oauth", lambda manager, userinfo, rotate_session_id=True: userinfo)
    manager = make_manager(config, admin=generate_password_hash("secret"), alice=generate_password_hash(""))
    assert manager.auth_user_oauth({"username": "admin"}) is None
    for name in ("alice", "somebody_new"):
        assert manager.auth_user_oauth({"username": name}) == {"username": name}
