"""The parts that all families share: an embedding, layers with attention between norms, a final
norm and a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solutions.engine.model.config import ModelConfig
from solutions.engine.model.layers import Layer
from solutions.engine.model.model import Model

from ..fields import Fields
from ..weights import Weight, one, rows

DECODER: dict[str, Sequence[object]] = {
    "attention_bias": [False],
    "is_causal": [True],
    "per_layer_config": [{}],
}
"""Config fields that transformers reads for every family, with the values that this engine
implements. Each family's module adds its own fields in SERVED; its DEFAULTS are transformers'
defaults of the fields that published configs leave out."""
SMALLEST_HEAD = 16
"""The smallest head size that is served: FlexAttention's kernels multiply tiles of 16 by 16."""
HEADS = ("lm_head.weight", "language_model.lm_head.weight")
"""Names that the tensor of the head may have in a checkpoint, which may store it even if the head
is the embedding."""


def shape_of(config: Fields) -> dict[str, int | float]:
    """Returns the sizes of a decoder, and its norms' epsilon, by their names in a ModelConfig.
    Raises ValueError for missing or wrong fields, and for heads smaller than SMALLEST_HEAD."""
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    if not config.has("head_dim") and hidden % heads:
        raise ValueError(
            f"{config.source}: hidden_size {hidden} for {heads} heads, and no head_dim: it must be "
            "a multiple"
        )
    size = config.count("head_dim", hidden // heads)
    if size < SMALLEST_HEAD:
        raise ValueError(
            f"{config.source}: heads of {size} numbers: this engine's attention takes "
            f"{SMALLEST_HEAD} or more (head_dim, or hidden_size for each of num_attention_heads)"
        )
    return {
        "num_layers": config.count("num_hidden_layers"),
        "hidden_size": hidden,
        "intermediate_size": config.count("intermediate_size"),
        "num_heads": heads,
        "num_kv_heads": config.count("num_key_value_heads", heads),
        "head_size": size,
        "vocab_size": config.count("vocab_size"),
        "norm_eps": config.number("rms_norm_eps", 1e-6),
        "has_kernel_for_few": True,
        "has_kernel_for_many": True,
    }


def ends_of(
    model: Model, prefix: str, shift: float = 0.0, head: str = HEADS[0]
) -> Iterator[Weight]:
    """Yields the weights before and after a decoder's layers: embedding, final norm, and head. A
    head that is the embedding has no tensor of its own. `shift` is added to the norm's numbers;
    `prefix` begins the names of the first two tensors, and `head` is the name of the third."""
    config = model.config.model
    # The rows after the ids of text are room for images.
    yield rows(model, "embedding", {f"{prefix}embed_tokens.weight": config.vocab_size})
    yield one(model, "final_norm", f"{prefix}norm.weight", shift)
    if not config.architecture.tied:
        yield one(model, "lm_head", head)


def plain_attention(layer: Layer, prefix: str, config: ModelConfig) -> Iterator[Weight]:
    """Yields the weights of an attention layer's projections: `qkv_proj`, filled by three tensors,
    and `o_proj`. `prefix`, with which the tensors' names begin, ends with a dot."""
    of_keys = config.num_kv_heads * config.head_size
    sources = {"q_proj": config.query_size, "k_proj": of_keys, "v_proj": of_keys}
    named = {f"{prefix}{name}.weight": count for name, count in sources.items()}
    yield rows(layer, "qkv_proj", named)
    yield one(layer, "o_proj", f"{prefix}o_proj.weight")
