"""What a recording or a machine file may hold instead of names."""

from __future__ import annotations

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "\"><script>alert('1')</script>",
    "' onmouseover='alert(1)' x='",
    "void k<a<b>, c>(int) </title></style></textarea><iframe src=javascript:alert(1)>",
    "{{ 7 * 7 }}{% raw %}{# x #}",
    "evil\u202egnp.exe\u2066\u200b\ufeff",
    "bell\x07esc\x1b[31mnull\x00",
    "=cmd|' /C calc'!A0",
    "line\u2028separator\u2029\r\n<!-- --> ]]> -->",
    "z" + "\u0335" * 400 + "algo",
    "x<" * 30_000,
    "&lt;b&gt; &amp; &#x3c;script&#x3e;",
    "名前 ünïcödé \U0001f600 <b>",
    "",
)
"""Texts a recording or a machine file may hold."""
