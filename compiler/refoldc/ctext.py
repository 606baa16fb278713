"""C99 text: literals, strings, comments and arrays."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH = 96


def c_float(x: float) -> str:
    """A float literal that reads back as the same bits.

    >>> c_float(0.5)
    '0x1.0000000000000p-1f'
    """
    return f"{float(x).hex()}f"


def c_string(text: str) -> str:
    r"""A string literal; what is not plain ASCII becomes octal escapes.

    >>> print(c_string('a"b?\n'))
    "a\042b\077\012"
    """
    plain = set(range(0x20, 0x7F)) - set(b'"\\?')
    body = (chr(b) if b in plain else f"\\{b:03o}" for b in text.encode())
    return '"' + "".join(body) + '"'


def c_comment(text: str) -> str:
    """Text that cannot end, or nest, the comment it stands in.

    >>> c_comment("a*/b")
    'a* /b'
    """
    safe = "".join(c if " " <= c <= "~" else "?" for c in text)
    return safe.replace("*/", "* /").replace("/*", "/ *")


def c_items(values: Iterable[str], indent: str = "    ") -> str:
    """Comma-separated items in lines of bounded width."""
    return textwrap.fill(
        ", ".join(values),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def c_array(kind: str, name: str, values: NDArray[Any], prefix: str = "") -> str:
    """A static constant array of all elements in C order.

    Args:
        kind: C type of an element.
        name: Identifier.
        values: Integers, or float32.
        prefix: Attribute before the identifier.
    """
    flat = values.reshape(-1).tolist()
    write = c_float if np.issubdtype(values.dtype, np.floating) else str
    head = f"static const {kind} {prefix}{name}[{len(flat)}] = {{"
    return f"{head}\n{c_items(map(write, flat))}\n}};"


def c_struct(head: str, fields: Iterable[tuple[str, str]], indent: str = "") -> str:
    """A brace initialiser with one designated field a line.

    Args:
        head: What stands before the brace, for example ``x =``.
        fields: (name, value).
    """
    lines = "".join(f"{indent}    .{name} = {value},\n" for name, value in fields)
    return f"{indent}{head}{{\n{lines}{indent}}}"


def joined(sections: Iterator[str]) -> str:
    """Sections with one blank line between, and a newline at the end."""
    return "\n\n".join(sections) + "\n"
