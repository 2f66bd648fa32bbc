"""torchvision's detectors give the same results on sim as on the CPU."""

import copy

import pytest
import torch

pytestmark = [pytest.mark.sim, pytest.mark.deep, pytest.mark.filterwarnings("ignore")]
SMALL = {"weights": None, "weights_backbone": None, "num_classes": 4}
DETECTORS = (
    "fasterrcnn_mobilenet_v3_large_320_fpn",
    "retinanet_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large",
)


@pytest.fixture(scope="module")
def detection():
    return pytest.importorskip(
        "torchvision.models.detection", reason="torchvision is not installed here"
    )


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_finds_and_learns(accelerator, detection, name):
    torch.manual_seed(0)
    model = getattr(detection, name)(**SMALL).eval()
    twin = copy.deepcopy(model).to(accelerator.device)
    image = torch.rand(3, 96, 96)
    with torch.no_grad():
        expected, got = model([image]), twin([image.to(accelerator.device)])
    for key, value in expected[0].items():
        torch.testing.assert_close(got[0][key].cpu(), value, rtol=1e-3, atol=1e-3)
    target = {"boxes": torch.tensor([[8.0, 8.0, 60.0, 60.0]]), "labels": torch.tensor([1])}
    target = {key: value.to(accelerator.device) for key, value in target.items()}
    losses = twin.train()([image.to(accelerator.device)] * 2, [target] * 2)
    sum(losses.values()).backward()
    assert all(loss.isfinite() for loss in losses.values())
