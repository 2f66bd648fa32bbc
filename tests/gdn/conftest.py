"""What the peer library would change for all tests that come after it in the same process."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def nobody_imports_the_peer():
    """It imports PyTorch's compiler, and that has distributions trust their parameters from then
    on: a wait less, in whatever uses one. So a test gives the peer a process of its own."""
    before = torch.distributions.Distribution._validate_args
    yield
    assert torch.distributions.Distribution._validate_args is before, "a test imported the peer"
