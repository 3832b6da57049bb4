"""The demo's prompt: a real question about a long real passage, of an exact length."""

from __future__ import annotations

from pathlib import Path

from tqcore.demo.errors import DemoError
from tqcore.measure.hosts import Loaded
from tqcore.measure.text import passage

QUESTION = "What is this passage about? Answer in one sentence."
QUESTION_ABOUT_A_FILE = "What is the passage about? Answer in two sentences."

_MARK = "<passage>"
_MIN_PASSAGE = 64


def build_prompt(
    loaded: Loaded, n_tokens: int, path: Path | None = None, question: str | None = None
) -> list[int]:
    """Return ``n_tokens`` token ids, in the model's chat template.

    Args:
        loaded: whose tokenizer and template to use.
        n_tokens: length of the prompt, template and question included.
        path: a text file to ask about; None takes CPython's manual.
        question: what to ask; None asks something that suits the text.

    Raises:
        DemoError: too few tokens for a passage, or a text that is too short.
    """
    question = question or (QUESTION if path is None else QUESTION_ABOUT_A_FILE)
    request = f"Read this passage, then answer the question.\n\n{_MARK}\n\nQuestion: {question}"
    message = {"role": "user", "content": request}
    text = loaded.tokenizer.apply_chat_template(
        [message], tokenize=False, add_generation_prompt=True
    )
    before, _, after = text.partition(_MARK)
    head, tail = loaded.encode(before), loaded.encode(after)
    room = n_tokens - len(head) - len(tail)
    if room < _MIN_PASSAGE:
        least = len(head) + len(tail) + _MIN_PASSAGE
        raise DemoError(f"--context {n_tokens}: this prompt takes {least} tokens or more")
    return head + passage(loaded.encode, room, path=path) + tail
