"""``tqcore demo``: the same prompt through dense and quantized caches."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress

from tqcore.demo.plan import Options, Run, plan
from tqcore.demo.prompt import build_prompt
from tqcore.demo.result import Result
from tqcore.demo.smollm2 import ensure_model
from tqcore.measure import numpy_matmul
from tqcore.measure.greedy import generate
from tqcore.measure.hosts import Loaded, load, pick_host
from tqcore.measure.memory import as_fp16
from tqcore.measure.progress import bars
from tqcore.measure.quality import evaluate

_JUDGED_SHARE = 3
"""One token in three of the prompt is judged: the end of the passage, and the question."""

_DECODE_COST = 8
"""A decode step takes about as long as this many tokens of a prompt; for the time left."""


def run_demo(options: Options, console: Console) -> list[Result]:
    """Run the demo.

    Every run reads all but the last token of the prompt through its caches. The last third
    is judged against the dense run; then the caches, which hold ``options.context`` tokens,
    are counted, and the answer is generated.

    Args:
        options: what to run.
        console: for progress and notices.

    Raises:
        DemoError: the model or the text cannot be had, or the options do not fit.
        UnknownNameError, OptionError, WidthError: a scheme or width that does not exist.
    """
    options.check()
    host = pick_host(options.host, options.peers)
    with bars(console) as progress:
        path = options.model or ensure_model(progress)
        loading = progress.add_task("load the model", total=None)
        loaded = load(path, host)
        if numpy_matmul.use_if_faster(loaded.model):
            console.print("numpy multiplies the weights here: MLX's own BLAS is slower.")
        progress.update(loading, total=1, completed=1)

        # One more than the context: the last token starts the answer.
        prompt = build_prompt(loaded, options.context + 1, options.text, options.question)
        return _measure(options, loaded, prompt, plan(options, loaded), progress)


def _measure(
    options: Options, loaded: Loaded, prompt: list[int], runs: list[Run], progress: Progress
) -> list[Result]:
    work = len(runs) * (options.context + _DECODE_COST * options.max_tokens)
    task = progress.add_task("read the prompt", total=work)

    def read(name: str, tokens: int) -> None:
        progress.update(task, advance=tokens, description=f"read: {name}")

    split = len(prompt) - len(prompt) // _JUDGED_SHARE
    qualities = evaluate(
        loaded.model,
        {run.name: run.caches for run in runs},
        prompt[:split],
        prompt[split:],
        advance=read,
    )
    fp16 = as_fp16(runs[0].caches)
    results = []
    for run in runs:
        progress.update(task, description=f"answer: {run.name}")
        generation = generate(
            loaded.model,
            run.caches,
            prompt[-1],
            max_tokens=options.max_tokens,
            end=loaded.end_tokens,
            advance=lambda steps: progress.advance(task, _DECODE_COST * steps),
        )
        # An answer that ends early has used less of the time than was planned for it.
        progress.advance(task, _DECODE_COST * (options.max_tokens - generation.steps))
        results.append(
            Result(
                name=run.name,
                scheme=run.scheme,
                key_bits=run.key_bits,
                value_bits=run.value_bits,
                tokens=options.context,
                quality=qualities[run.name],
                fp16=fp16,
                generation=generation,
                text=loaded.decode(generation.tokens),
            )
        )
    progress.update(task, description="done")
    return results
