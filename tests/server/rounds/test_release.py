from __future__ import annotations

import numpy as np

from fedaigc.adapter import Adapter
from fedaigc.round_plan import RoundPlan
from fedaigc_server.rounds.release import Release
from tests.server.rounds.conftest import Learning


def test_releasing_a_round_twice_gives_the_same_policy(learning: Learning) -> None:
    _, plan_bytes = learning.begin()
    stores = learning.site.stores
    release = Release(stores.policies, stores.blobs, learning.site.identity.release_key.public)
    plan = RoundPlan.open(plan_bytes, learning.site.identity.release_key.public)
    updates = [device.update_for(plan) for device in learning.devices]
    first, again = release.release(plan, updates, 1), release.release(plan, updates, 999)
    assert first == again
    assert first[0].version == 1
    assert first[0].epsilon_max == max(update.epsilon_spent for update in updates)


def test_the_new_adapter_is_the_mean_of_the_updates(learning: Learning) -> None:
    _, plan_bytes = learning.begin()
    stores = learning.site.stores
    release = Release(stores.policies, stores.blobs, learning.site.identity.release_key.public)
    plan = RoundPlan.open(plan_bytes, learning.site.identity.release_key.public)
    updates = [device.update_for(plan) for device in learning.devices]
    manifest, _ = release.release(plan, updates, 1)
    adapter = Adapter.from_bytes(stores.blobs.get(manifest.adapter))
    for name, array in adapter.b.items():
        expected = np.mean([update.adapter_delta.b[name] for update in updates], axis=0)
        np.testing.assert_allclose(array, expected, rtol=1e-6)
