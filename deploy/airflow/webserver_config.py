"""How people log in to the team's Airflow: with a password in Airflow's database, or through OpenID Connect.

Airflow's auth manager FAB executes this file, and takes the names in capitals as its settings. The variables OIDC_…
name a provider of OpenID Connect; docs/team.md explains them. Who has no account sees nothing: `AUTH_ROLE_PUBLIC` is
not set, and only a provider's users can register, without any role of their own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from airflow.configuration import conf
from airflow.providers.fab.auth_manager.models import User
from airflow.providers.fab.auth_manager.security_manager.override import FabAirflowSecurityManagerOverride
from airflow.providers.fab.www.security.permissions import ACTION_CAN_READ, RESOURCE_PLUGIN
from brokerproof.settings import read_secret
from fastapi import HTTPException
from flask import abort, has_request_context
from flask_appbuilder.const import AUTH_DB, AUTH_OAUTH
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from werkzeug.security import check_password_hash

# Brokerproof's name of each role, and FAB's. FAB's role `Op` may also change connections. A connection decides where
# Spark runs code, so only an admin may change it.
ROLES = {"viewer": "Viewer", "operator": "User", "admin": "Admin"}
PROVIDER = "oidc"

log = logging.getLogger(__name__)
_failures = FixedWindowRateLimiter(MemoryStorage())


def read_provider(issuer: str) -> dict[str, Any]:
    """Return FAB's settings for the provider at `issuer`. Raises SystemExit with a sentence if they are incomplete."""
    secret = read_secret("OIDC_CLIENT_SECRET")
    for name, value in (("OIDC_CLIENT_ID", os.environ.get("OIDC_CLIENT_ID")), ("OIDC_CLIENT_SECRET", secret)):
        if not value:
            raise SystemExit(f"{name} is missing; set it beside OIDC_ISSUER, as the provider gave it to you")
    roles: dict[str, list[str]] = {}
    for name, role in ROLES.items():
        for group in filter(None, map(str.strip, os.environ.get(f"OIDC_{name.upper()}_GROUPS", "").split(","))):
            roles.setdefault(group, []).append(role)
    if not roles:
        names = ", ".join(f"OIDC_{name.upper()}_GROUPS" for name in ROLES)
        raise SystemExit(f"No group of the provider has a role, so no user could do anything; set one of {names}")
    return {
        "AUTH_TYPE": AUTH_OAUTH,
        "OAUTH_PROVIDERS": [
            {
                "name": PROVIDER,
                "icon": "fa-key",
                "token_key": "access_token",
                "remote_app": {
                    "client_id": os.environ["OIDC_CLIENT_ID"],
                    "client_secret": secret,
                    "server_metadata_url": f"{issuer.rstrip('/')}/.well-known/openid-configuration",
                    "client_kwargs": {"scope": os.environ.get("OIDC_SCOPE") or "openid email profile"},
                },
            }
        ],
        # A user gets the roles of the groups at the log-in, and no other.
        "AUTH_USER_REGISTRATION": True,
        "AUTH_USER_REGISTRATION_ROLE": "Public",
        "AUTH_ROLES_MAPPING": roles,
        "AUTH_ROLES_SYNC_AT_LOGIN": True,
    }


class SecurityManager(FabAirflowSecurityManagerOverride):
    """FAB's security manager, with a limit on wrong passwords and with users of OpenID Connect."""

    # Airflow shows the entries of Brokerproof's plugin only to people who may read the list of plugins.
    ROLE_CONFIGS: ClassVar[list[dict[str, Any]]] = [
        {**each, "perms": [*each["perms"], *([] if each["role"] == "Public" else [(ACTION_CAN_READ, RESOURCE_PLUGIN)])]}
        for each in FabAirflowSecurityManagerOverride.ROLE_CONFIGS
    ]

    def auth_user_db(self, username: str, password: str, rotate_session_id: bool = True) -> User | None:
        """Return the user, or None if the password is wrong.

        FAB limits the form of its page, for each address. `[fab] auth_rate_limit` here also limits wrong passwords for
        each name, from any address, and at `/auth/token` too. Beyond it, the answer is 429.
        """
        key = str(username).lower()
        limit = parse(self.auth_rate_limit)
        if not _failures.test(limit, key):
            sentence = f"Too many wrong passwords; the limit is {self.auth_rate_limit}."
            if has_request_context():
                abort(429, sentence)
            raise HTTPException(429, sentence)
        user = super().auth_user_db(username, password, rotate_session_id)
        if user is None:
            _failures.hit(limit, key)
        return user

    def get_oauth_user_info(self, provider: str, resp: Mapping[str, Any]) -> dict[str, Any]:
        """Return the user that the provider's signed ID token names, with the user's groups in `role_keys`."""
        claims = {**resp["userinfo"]}
        groups = claims.get(os.environ.get("OIDC_GROUPS_CLAIM") or "groups") or []
        return {
            "username": claims[os.environ.get("OIDC_USERNAME_CLAIM") or "preferred_username"],
            "email": claims.get("email", ""),
            "first_name": claims.get("given_name", ""),
            "last_name": claims.get("family_name", ""),
            "role_keys": [groups] if isinstance(groups, str) else list(groups),
        }

    def auth_user_oauth(self, userinfo: Mapping[str, Any], rotate_session_id: bool = True) -> User | None:
        """Return the user of the provider, or None if a user with a password has the same name, such as `admin`."""
        known = self.find_user(username=userinfo["username"])
        # FAB gives users of a provider the empty password, which logs no user in.
        if known is not None and not check_password_hash(known.password or "", ""):
            log.warning("%s of the provider is refused: a user with a password has this name", known.username)
            return None
        return super().auth_user_oauth(userinfo, rotate_session_id)


SECURITY_MANAGER_CLASS = SecurityManager
AUTH_TYPE = AUTH_DB
AUTH_USER_REGISTRATION = False
WTF_CSRF_ENABLED = True
SESSION_COOKIE_SECURE = conf.get("api", "base_url", fallback="").startswith("https://")
if _issuer := os.environ.get("OIDC_ISSUER"):
    globals().update(read_provider(_issuer))
