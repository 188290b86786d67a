"""Pieces of HTML that together make pages that no author would write."""

GARBAGE = (
    b'<a href="https://one.example.com/x?a=1&amp;b=2">', b"<a href=//two.example.com/y>",
    b"<A HREF='http://three.example.com/' CLASS=ext>", b'<a class="a b" href="https://four.example.com/">',
    b"<a class href=https://five.example.com/>", b'<a href="https://six.example.com/" class= >',
    b'<a href="/wiki/Own" title="x">own</a>', b"<a name=x>", b"</a>", b"</A >", b"</a x='>'>",
    b"text ", b"\xc3\xa9", b"\xff\xfe", b"\0", b"<", b">", b"&", b'"', b"'", b"=", b"/", b"<p>", b"</p>",
    b"<div id=content>", b"</div>", b"<ul><li>", b"<li>", b"</ul>", b"<table><tr><td>", b"</table>", b"<b>",
    b"</b>", b"<i>", b"</i>", b"<!--", b"-->", b"--!>", b"<!-->", b"<!doctype html>", b"<?php >",
    b"<![CDATA[", b"]]>", b"<script>", b"</script>", b"<style>", b"</style>", b"<textarea>",
    b"</textarea>", b"<title>", b"</title>", b"<template>", b"</template>", b"<select>", b"</select>",
    b"<svg>", b"</svg>", b"<svg/>", b"<g x=/>", b"<math>", b"</math>", b"<mi>", b"<foreignObject>",
    b"</foreignObject>", b"<img alt='a > b <a href=x>'>", b"<span title=\"<a href='https://x.test'>\">",
    b"</span>", b"<br/>", b"<sup>", b"</sup>", b"<base href='https://base.example.com/d/'>",
    b"<h2>", b"</h2>", b"<button>", b"</button>", b"<form>", b"</form>",
)  # fmt: skip
