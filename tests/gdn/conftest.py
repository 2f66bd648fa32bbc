"""Guards against the peer library, which would change all later tests of its process."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def nobody_imports_the_peer():
    """Checks after each module that no test imported the peer library in this process. The peer
    imports PyTorch's compiler, after which distributions don't check their parameters, so their
    users wait once less. Tests run the peer in a process of its own."""
    before = torch.distributions.Distribution._validate_args
    yield
    assert torch.distributions.Distribution._validate_args is before, "a test imported the peer"
