"""The three habits that all systems of this workbook rest on."""

from .copy_beside_compute import run_batches
from .keep_it_on_the_device import mean_loss
from .upload_without_waiting import upload_tokens

__all__ = ["mean_loss", "run_batches", "upload_tokens"]
