"""Sees what Triton and torch.compile compile on a GPU: checks each, and notes it if recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypedDict

from ..contract.compiles import Compiled, Key, check
from ..contract.packages.triton_mode import is_there
from ..contract.recorded import FIRST

Begin = Callable[[str, str], AbstractContextManager[object]]
"""A function that gets a kernel's name and what is new about its key, and returns the context
manager that marks the compilation in a recording."""
OPTIONS = ("num_warps", "num_stages", "num_ctas")
DTYPES = {
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{"bf16": "bfloat16", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "u1": "bool"},
}
"""PyTorch's names of the types of a tensor's elements, by Triton's."""
NOT_SEEN = (
    "a new key (the kernel was compiled before debubble first looked, so its old keys are unknown)"
)
OF_A_FUNCTION = "a new function, type, size or value: TORCH_LOGS=recompiles says which"


class Compilations:
    """The compilations of this process, seen by Triton's hooks and PyTorch's callbacks. Hooks that
    others installed stay."""

    def __init__(self) -> None:
        self.compiled = Compiled()
        self.begin: Begin | None = None
        """Marks compilations while a recording asks for them."""
        self._running: list[AbstractContextManager[object]] = []
        self._installed = False

    def watch_triton(self) -> None:
        """Adds hooks for Triton's kernels, so that the keys of a warm-up are known later."""
        if is_there():
            from triton import knobs

            runtime = knobs.runtime
            runtime.jit_cache_hook = _both(runtime.jit_cache_hook, self._triton_begins)
            runtime.jit_post_compile_hook = _both(runtime.jit_post_compile_hook, self._ends)

    def watch_torch_compile(self) -> None:
        """Adds PyTorch's callbacks, once. They import its compiler, which takes a while."""
        if self._installed:
            return
        self._installed = True
        from debubble.private.torch import compile_callbacks

        callbacks = compile_callbacks()
        callbacks.register_start_callback(self._torch_begins)
        callbacks.register_end_callback(self._ends)

    @contextmanager
    def noted(self, begin: Begin) -> Iterator[None]:
        """Calls `begin` for each compilation in the block."""
        self.watch_torch_compile()
        self.begin = begin
        try:
            yield
        finally:
            self.begin = None
            self._ends()

    def _triton_begins(self, *, fn: Any, compile: Told, **rest: Any) -> None:
        """Returns None, so that Triton compiles. Raises UnexpectedCompile if it may not."""
        kernel = fn.jit_function
        first = NOT_SEEN if _is_compiled(kernel) else FIRST
        missed = self.compiled.misses(kernel, fn.name, key_of(compile), first)
        self._begin(fn.name, missed or "a cache that was cleared")

    def _torch_begins(self, arguments: Any) -> None:
        check("torch.compile", OF_A_FUNCTION)
        self._begin("torch.compile", OF_A_FUNCTION)

    def _begin(self, name: str, missed: str) -> None:
        mark = self.begin(name, missed) if self.begin else nullcontext()
        mark.__enter__()
        self._running.append(mark)

    def _ends(self, *arguments: Any, **named: Any) -> None:
        if self._running:
            self._running.pop().__exit__(None, None, None)


class Told(TypedDict, total=False):
    """The part of what Triton tells its hooks that makes a key."""

    signature: dict[str, object]
    constants: dict[tuple[int, ...], object]
    configs: list[dict[tuple[int, ...], object]]
    num_warps: int
    num_stages: int
    num_ctas: int


def _both(first: Callable[..., Any] | None, second: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a hook that calls two. The first one's answer counts, since the second has none."""
    if first is None:
        return second

    def call(*arguments: Any, **named: Any) -> Any:
        answer = first(*arguments, **named)
        return answer or second(*arguments, **named)

    return call


def _is_compiled(kernel: Any) -> bool:
    """True if Triton has the kernel compiled with any key, on any device."""
    return any(cache[0] for cache in kernel.device_caches.values())


def key_of(compile: Told) -> Key:
    """Returns the key of a compilation, from what Triton tells its hooks, in the words of
    `debubble.rules.specialization`."""
    signature, constants = compile["signature"], compile["constants"]
    attributes = compile["configs"][0]
    parts = [
        (name, _words(type_, constants.get((place,)), bool(attributes.get((place,)))))
        for place, (name, type_) in enumerate(signature.items())
    ]
    return (*parts, *((name, repr(value)) for name, value in compile.items() if name in OPTIONS))


def _words(type_: Any, constant: object, is_aligned: bool) -> str:
    a_multiple = f"{'a' if is_aligned else 'no'} multiple of 16"
    if not isinstance(type_, str):
        return f"({type_})"
    if type_ == "constexpr":
        if constant is None:
            return "None"
        if isinstance(constant, int) and constant == 1:
            return "1"
        return f"the constant {getattr(constant, '__name__', repr(constant))}"
    if type_.startswith("*"):
        return f"{DTYPES.get(type_[1:], type_[1:])} memory at {a_multiple} bytes"
    if type_ in ("i64", "u64"):
        return f"{a_multiple} in 64 bits{', unsigned' if type_ == 'u64' else ''}"
    if type_.startswith(("i", "u")) and type_ != "u1":
        return a_multiple
    return {"u1": "a bool", "fp32": "a float"}.get(type_, type_)
