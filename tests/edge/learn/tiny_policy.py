"""A tiny real model under the learning code: two random layers, no export and no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedaigc.adapter import Adapter
from fedaigc_edge.learn.torch_policy import TorchPolicy
from fedaigc_edge.model.content_hashes import hash_folder
from fedaigc_edge.model.store import HF, ModelFolder
from tests.learning_values import BASE_MODEL, HEAD_DIM, SHAPE
from tests.tiny_model import TINY_SIZES, make_tiny_hf_folder


def tiny_policy(folder: Path, parent: Adapter | None = None, head_layer: int = 1) -> TorchPolicy:
    """The policy of a tiny model written to `folder`, from B = 0 or from `parent`."""
    if not folder.exists():
        make_tiny_hf_folder(folder)
    return TorchPolicy.open(folder, parent or Adapter.zero(SHAPE, BASE_MODEL), head_layer)


def tiny_folder(root: Path) -> ModelFolder:
    """A model folder that can be trained; its served half is missing."""
    make_tiny_hf_folder(root / HF)
    files = {f"{HF}/{path}": digest for path, digest in hash_folder(root / HF).items()}
    return ModelFolder("tiny", root, BASE_MODEL, SHAPE, (), 1, HEAD_DIM, TINY_SIZES, (2,), files, {}, {})


@pytest.fixture(scope="module")
def tiny_hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Hugging Face folder, to be read only."""
    return make_tiny_hf_folder(tmp_path_factory.mktemp("policy") / "hf")
