"""Tiny targets and drafters for mlx-vlm's speculative decoding, made in memory."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from tests.integration import models
from tests.integration.families import COMMON, FAMILIES

BLOCK = 4


def mtp(shared_layers: int) -> tuple[Any, Any]:
    """Return a gemma4 target and an assistant that attends to the target's own keys."""
    gemma4 = importlib.import_module("mlx_vlm.models.gemma4")
    changes = {"model_type": "gemma4_text", "num_kv_shared_layers": shared_layers}
    sizes = {"num_attention_heads": 2, "num_key_value_heads": 2, "position_embedding_size": 16}
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 16}
    config = gemma4.ModelConfig(
        text_config=gemma4.TextConfig.from_dict({**COMMON, **FAMILIES["gemma4_text"], **changes}),
        vision_config=gemma4.VisionConfig.from_dict({**vision, **sizes, "global_head_dim": 16}),
        vocab_size=COMMON["vocab_size"],
        hidden_size=COMMON["hidden_size"],
    )
    assistant = importlib.import_module("mlx_vlm.speculative.drafters.gemma4_assistant")
    text = {
        **COMMON,
        "model_type": "gemma4_text",
        "global_head_dim": 64,
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 2,
        "tie_word_embeddings": True,
    }
    drafts = {"backbone_hidden_size": COMMON["hidden_size"], "block_size": BLOCK}
    mx.random.seed(0)
    target = gemma4.Model(config)
    return target, assistant.Model(assistant.ModelConfig.from_dict({**drafts, "text_config": text}))


def dflash(path: Any) -> tuple[Any, Any]:
    """Return a hybrid target (recurrent and attention layers) and a block drafter."""
    import mlx_vlm

    qwen = importlib.import_module("mlx_vlm.speculative.drafters.qwen3_dflash")
    target, _ = mlx_vlm.load(str(models.write(path, "lfm2")))
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    config = qwen.ModelConfig(
        **{name: COMMON[name] for name in names},
        intermediate_size=128,
        num_hidden_layers=1,
        block_size=BLOCK,
        mask_token_id=3,
        target_layer_ids=[1, 3],
        num_target_layers=models.LAYERS,
    )
    return target, qwen.Model(config)


def eagle3(path: Any) -> tuple[Any, Any]:
    """Return the same target and a drafter that continues its hidden states."""
    import mlx_vlm

    eagle = importlib.import_module("mlx_vlm.speculative.drafters.eagle3")
    target, _ = mlx_vlm.load(str(models.write(path, "lfm2")))
    config = eagle.ModelConfig(
        transformer_layer_config={**COMMON, "model_type": "llama", "num_hidden_layers": 1},
        draft_vocab_size=COMMON["vocab_size"],
        block_size=BLOCK,
        target_layer_ids=[1, 2, 3],
    )
    return target, eagle.Model(config)


def replay(drafter: Any, answers: Iterable[Sequence[int]]) -> None:
    """Make a drafter guess what followed a token in known answers, so that it is often right."""
    follows: dict[int, int] = {}
    for answer in answers:
        for token, following in itertools.pairwise(answer):
            follows.setdefault(token, following)

    def draft_block(
        last_bonus: Any, _: Any, __: Any, block_size: int, *___: Any, **____: Any
    ) -> Any:
        rows = [last_bonus] if isinstance(last_bonus, int) else last_bonus.reshape(-1).tolist()
        return mx.array([_chain(token, block_size - 1, follows) for token in rows])

    drafter.draft_block = drafter.draft_block_greedy = draft_block


def _chain(token: int, count: int, follows: dict[int, int]) -> list[int]:
    chain = []
    for _ in range(count):
        token = follows.get(token, 7)
        chain.append(token)
    return chain
