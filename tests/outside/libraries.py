"""Uses libraries as their documentation shows, on random data: `python libraries.py NAME`."""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STEPS = 3


def images(count: int, size: int = 64) -> TensorDataset:
    return TensorDataset(torch.randn(count, 3, size, size), torch.randint(10, (count,)))


def vit_pytorch() -> None:
    """Distils a small vision transformer from a ResNet."""
    from torchvision.models import resnet18
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    sizes = {"image_size": 64, "patch_size": 16, "num_classes": 10, "dim": 64, "depth": 2}
    student = DistillableViT(**sizes, heads=4, mlp_dim=128)
    teacher = resnet18(num_classes=10).eval()
    distiller = DistillWrapper(student=student, teacher=teacher, temperature=3).to(DEVICE)
    optimizer = torch.optim.Adam(distiller.parameters(), lr=1e-3)
    total = 0.0
    for image, label in DataLoader(images(4 * STEPS), batch_size=4, shuffle=True):
        loss = distiller(image.to(DEVICE), label.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("mean loss", total / STEPS)


def mamba_minimal() -> None:
    """Trains two layers, and then generates 6 tokens."""
    from model import Mamba, ModelArgs

    model = Mamba(ModelArgs(d_model=32, n_layer=2, vocab_size=64)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(STEPS):
        tokens = torch.randint(64, (2, 17)).to(DEVICE)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")
    tokens = torch.tensor([[1, 2, 3]], device=DEVICE)
    with torch.no_grad():
        for _ in range(6):
            chances = F.softmax(model(tokens)[:, -1], dim=-1)
            tokens = torch.cat([tokens, torch.multinomial(chances, 1)], dim=1)
    print([row.tolist() for row in tokens])


def timm() -> None:
    """Trains a ResNet in half precision with Mixup and an average of the weights, and tests it."""
    from timm import create_model
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import AverageMeter, ModelEmaV3, NativeScaler, accuracy

    model = create_model("resnet10t", num_classes=10, drop_path_rate=0.1)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    average, scaler = ModelEmaV3(model, decay=0.99), NativeScaler(device=DEVICE)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10)
    losses, top1 = AverageMeter(), AverageMeter()
    for step, (image, label) in enumerate(DataLoader(images(4 * STEPS), batch_size=4)):
        image, label = mixup(image.to(DEVICE), label.to(DEVICE))
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = SoftTargetCrossEntropy()(model(image), label)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        average.update(model, step=step)
        losses.update(loss.item(), len(image))
    model.eval()
    with torch.inference_mode():
        for image, label in DataLoader(images(8), batch_size=4):
            correct, _ = accuracy(model(image.to(DEVICE)), label.to(DEVICE), topk=(1, 5))
            top1.update(correct.item(), len(image))
    print(losses.avg, top1.avg)


class Sentences(Dataset):
    def __len__(self) -> int:
        return 4 * STEPS

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(128, (16,), generator=torch.Generator().manual_seed(row))
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, pad_token_id=0))


def transformers_trainer() -> None:
    """Trains a Llama of two layers, with an evaluation after each second step."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir="trained", max_steps=STEPS, per_device_train_batch_size=2, logging_steps=1,
        eval_strategy="steps", eval_steps=2, save_strategy="no", report_to=[], bf16=True,
        use_cpu=DEVICE == "cpu",
    )  # fmt: skip
    data = {"train_dataset": Sentences(), "eval_dataset": Sentences()}
    Trainer(model=llama(), args=arguments, **data).train()


def transformers_generate() -> None:
    """Generates from prompts of two lengths: greedily, by chance, and with two beams."""
    model = llama().to(DEVICE).eval()
    prompts = torch.tensor([[0, 0, 5, 6], [1, 2, 3, 4]])
    prompts = {"input_ids": prompts, "attention_mask": (prompts > 0).long()}
    prompts = {name: tensor.to(DEVICE) for name, tensor in prompts.items()}
    for chosen in ({"do_sample": False}, {"do_sample": True, "top_p": 0.9}, {"num_beams": 2}):
        print(model.generate(**prompts, max_new_tokens=6, **chosen).tolist())


def lightning() -> None:
    """Trains and validates a classifier with a progress bar, metrics and checkpoints."""
    import lightning.pytorch as pl
    from torchmetrics.classification import MulticlassAccuracy

    class Classifier(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
            self.accuracy = MulticlassAccuracy(10)

        def training_step(self, batch, _):
            image, label = batch
            loss = F.cross_entropy(self.layers(image), label)
            self.log("loss", loss, prog_bar=True)
            return loss

        def validation_step(self, batch, _):
            image, label = batch
            self.accuracy(self.layers(image), label)
            self.log("accuracy", self.accuracy, prog_bar=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    trainer = pl.Trainer(
        max_epochs=2, accelerator="auto", devices=1, log_every_n_steps=1, gradient_clip_val=1.0,
        logger=pl.loggers.CSVLogger("logged"), enable_model_summary=False,
    )  # fmt: skip
    train, test = (DataLoader(images(4 * STEPS, size=8), batch_size=4) for _ in range(2))
    trainer.fit(Classifier(), train, test)


def diffusers() -> None:
    """Trains a U-Net to take noise away, and draws two images with it."""
    from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
    from diffusers.training_utils import EMAModel

    unet = UNet2DModel(
        sample_size=16,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
    ).to(DEVICE)
    scheduler, average = DDPMScheduler(), EMAModel(unet.parameters())
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-4)
    for image, _ in DataLoader(images(4 * STEPS, size=16), batch_size=4):
        image = image.to(DEVICE)
        noise = torch.randn_like(image)
        times = torch.randint(scheduler.config.num_train_timesteps, (4,), device=DEVICE)
        noisy = scheduler.add_noise(image, noise, times)
        loss = F.mse_loss(unet(noisy, times, return_dict=False)[0], noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.step(unet.parameters())
        print("loss", loss.detach().item())
    pipeline = DDPMPipeline(unet, scheduler)
    drawn = pipeline(batch_size=2, num_inference_steps=4, output_type="np").images
    print(drawn.shape)


def torchmetrics() -> None:
    """Trains with accelerate, which accumulates gradients, and measures with torchmetrics."""
    from accelerate import Accelerator
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC, MulticlassF1Score

    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(images(8 * STEPS, size=8), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    metrics = MetricCollection([MulticlassAccuracy(10), MulticlassF1Score(10), MulticlassAUROC(10)])
    metrics.to(accelerator.device)
    total = 0.0
    for image, label in loader:
        with accelerator.accumulate(model):
            output = model(image)
            loss = F.cross_entropy(output, label)
            total += loss.detach()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        metrics.update(*accelerator.gather_for_metrics((output.softmax(-1), label)))
    accelerator.print("loss", total.item() / len(loader), metrics.compute())
    accelerator.save_state("saved")


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
