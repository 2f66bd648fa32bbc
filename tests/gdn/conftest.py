"""Guards against the peer library, which would change all later tests of its process."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def nobody_imports_the_peer():
    """Checks that no test imported the peer. The peer imports PyTorch's compiler, which makes
    distributions trust their parameters from then on: one wait less in their users. So a test runs
    the peer in a process of its own."""
    before = torch.distributions.Distribution._validate_args
    yield
    assert torch.distributions.Distribution._validate_args is before, "a test imported the peer"
