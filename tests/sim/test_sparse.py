"""Sparse COO tensors on sim: what they hold, compute, wait for, and report as their device."""

import pytest
import torch
from torch import nn

import debubble

pytestmark = [
    pytest.mark.sim,
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled"),
]
DENSE = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
PLACES, VALUES = torch.tensor([[0, 1, 1, 1], [2, 0, 2, 2]]), torch.tensor([3.0, 4.0, 5.0, 6.0])


@pytest.fixture
def sparse(accelerator):
    """Returns DENSE as a sparse tensor on sim."""
    return DENSE.to(accelerator.device).to_sparse()


OPERATORS = {
    "to_dense": lambda s: s.to_dense(),
    "indices": lambda s: s.indices(),
    "values": lambda s: s.values(),
    "coalesce": lambda s: torch.sparse_coo_tensor(s.indices(), s.values(), (2, 3)).coalesce(),
    "sum": lambda s: s + s,
    "scaled": lambda s: s * 2,
    "transposed": lambda s: s.t(),
    "converted": lambda s: s.double(),
    "cloned": lambda s: s.clone(),
    "in place": lambda s: s.clone().mul_(3),
    "zeroed": lambda s: s.clone().zero_(),
    "product": lambda s: torch.sparse.mm(s, torch.ones(3, 2, device=s.device)),
    "product of two": lambda s: torch.sparse.mm(s, s.t()),
    "masked": lambda s: torch.full((2, 3), 7.0, device=s.device).sparse_mask(s),
    "sum of a dimension": lambda s: torch.sparse.sum(s, 0),
    "softmax": lambda s: torch.sparse.softmax(s, 1),
    "added to a dense one": lambda s: torch.ones(2, 3, device=s.device).add_(s),
    "fewer sparse dimensions": lambda s: s.to_dense().to_sparse(1),
    "of no value": lambda s: torch.zeros(2, 0, device=s.device).to_sparse(),
    "of no dimension": lambda s: torch.tensor(5.0, device=s.device).to_sparse(),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_result_is_the_one_on_the_cpu(sparse, name):
    got, wanted = OPERATORS[name](sparse), OPERATORS[name](DENSE.to_sparse())
    assert got.device.type == "sim" and got.layout is wanted.layout
    assert torch.equal(got.cpu().to_dense(), wanted.to_dense())
    if wanted.layout is torch.sparse_coo:
        assert got.is_coalesced() == wanted.is_coalesced()
        assert torch.equal(got._indices().cpu(), wanted._indices())


@pytest.mark.parametrize("there", [True, False], ids=["made there", "moved there"])
def test_duplicate_places_are_added_up(accelerator, there):
    where = {"device": accelerator.device} if there else {}
    made = torch.sparse_coo_tensor(PLACES, VALUES, (2, 3), **where).to(accelerator.device)
    assert made._nnz() == 4 and made.coalesce().values().tolist() == [3.0, 4.0, 11.0]
    assert made.cpu().to_dense().tolist() == [[0, 0, 3], [4, 0, 11]]


def test_it_prints_as_on_a_gpu(sparse):
    assert repr(sparse) == repr(DENSE.to_sparse()).replace("size=", "device='sim:0', size=")


def test_gradients_flow_through_a_product(sparse):
    weight = torch.ones(3, 2, device=sparse.device, requires_grad=True)
    torch.sparse.mm(sparse, weight).sum().backward()
    assert weight.grad[:, 0].tolist() == [2, 1, 3]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.SparseAdam])
def test_an_embedding_with_sparse_gradients_trains(accelerator, optimizer):
    def trained(device):
        torch.manual_seed(0)
        table = nn.Embedding(5, 3, sparse=True).to(device)
        stepping = optimizer(table.parameters(), lr=0.1)
        for _ in range(2):
            table(torch.tensor([1, 2, 1], device=device)).sum().backward()
            stepping.step()
        return table.weight.detach().cpu()

    torch.testing.assert_close(trained(accelerator.device), trained("cpu"))


def test_the_number_of_values_is_waited_for(accelerator):
    dense = DENSE.to(accelerator.device)
    with debubble.record(accelerator) as timeline:
        dense.to_sparse()
        dense.to_sparse(1)
    assert timeline.counts()["host_syncs"] == 1 + 4, "as on an H100"


def test_a_graph_replays_a_product(accelerator, sparse):
    static = torch.ones(3, 2, device=sparse.device)
    graph = accelerator.graph()
    with graph.capture():
        out = torch.sparse.mm(sparse, static)
        with pytest.raises(NotImplementedError, match=r"capture mul_\S*, which changes a sparse"):
            sparse.mul_(2)
    static.fill_(2)
    graph.replay()
    assert out[:, 0].tolist() == [2, 10]
