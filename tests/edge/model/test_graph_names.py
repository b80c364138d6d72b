from __future__ import annotations

from fedaigc_edge.model.graph_names import BOTH, FLAT, STACKED, UNCORRECTED, plain_name


def test_every_step_of_a_tensor_leads_back_to_its_plain_name() -> None:
    for name in ("x", "x" + STACKED, "x" + BOTH, "x" + UNCORRECTED, "x" + FLAT, "x" + UNCORRECTED + BOTH):
        assert plain_name(name) == "x"
