from __future__ import annotations

import pytest

from fedaigc.errors import JoinTokenError
from fedaigc.identifiers import new_node_id
from tests.server.conftest import NOW, Site


def test_the_secret_is_not_stored(site: Site) -> None:
    token = site.token()
    site.stores.database.close()
    stored = b"".join(path.read_bytes() for path in site.data.glob("server.db*"))
    assert token.secret.encode() not in stored
    assert bytes.fromhex(token.secret) not in stored


def test_a_token_is_used_once(site: Site) -> None:
    token = site.token()
    stored = site.stores.tokens.check(token.token_id, token.secret)
    site.stores.tokens.use(stored, new_node_id(), NOW)
    with pytest.raises(JoinTokenError, match=r"already used.*token create"):
        site.stores.tokens.use(stored, new_node_id(), NOW)
    assert site.stores.tokens.check(token.token_id, token.secret).used_by is not None


def test_an_expired_token_is_refused_and_stays_unused(site: Site) -> None:
    token = site.token(lasts_s=10)
    stored = site.stores.tokens.check(token.token_id, token.secret)
    with pytest.raises(JoinTokenError, match=r"expired.*token create"):
        site.stores.tokens.use(stored, new_node_id(), NOW + 11)
    assert site.stores.tokens.check(token.token_id, token.secret).used_by is None


def test_an_unknown_id_and_a_wrong_secret_read_the_same(site: Site) -> None:
    token = site.token()
    refusals = []
    for token_id, secret in ((token.token_id, "0" * 32), ("0" * 16, token.secret), ("", "é")):
        with pytest.raises(JoinTokenError) as refused:
            site.stores.tokens.check(token_id, secret)
        refusals.append(str(refused.value))
    assert len(set(refusals)) == 1
